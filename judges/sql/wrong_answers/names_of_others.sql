-- Functions that stand for others have the nulls, types and errors of these.
CREATE TABLE t AS VALUES (DATE '2024-02-29', 3, 'duck'), (NULL, NULL, NULL);

SELECT year(column1), month(column1), day(column1), quarter(column1), dayofyear(column1), weekofyear(column1), last_day(column1) FROM t ORDER BY column1;
--> 2024 | 2 | 29 | 1 | 60 | 9 | 2024-02-29
--> NULL | NULL | NULL | NULL | NULL | NULL | NULL

SELECT hour(TIMESTAMP '2024-02-29 11:59:44.5'), minute(TIMESTAMP '2024-02-29 11:59:44.5'), add_months(TIMESTAMP '2024-01-31 10:00:00', 1), add_months('2024-03-31', -1);
--> 11 | 59 | 2024-02-29 | 2024-02-29

SELECT add_months(DATE '2024-01-31', 1.5);
--> refused: |

SELECT date_add(DATE '2024-02-28', 2), date_sub(DATE '2024-03-01', 2), datediff(TIMESTAMP '2024-03-01 01:00:00', DATE '2024-02-28'), date_add(DATE '2024-02-28', INTERVAL '1 day 1 hour');
--> 2024-03-01 | 2024-02-28 | 2 | 2024-02-29T01:00:00

SELECT pmod(7, 3), pmod(-7, 3), pmod(7, -3), pmod(-7, -3), pmod(-7.5, 2.0), pmod(NULL, 2);
--> 1 | 2 | 1 | -1 | 0.5 | NULL

-- Columns, groups and clauses are those of the statement.
SELECT year(column1) AS y, count(*), count_if(column2 > 2) FROM t GROUP BY year(column1) ORDER BY y;
--> 2024 | 1 | 1
--> NULL | 1 | 0

SELECT x, max_by(y, x) OVER (PARTITION BY g) FROM (VALUES (1, 'a', 1), (2, 'b', 1)) AS v(x, y, g);
--> refused: a clause that the function max_by does not have

SELECT max_by(y, x), arg_max(y, x), min_by(y, x), arg_min(y, x), max(z) FROM (VALUES (1, 'a', NULL), (2, NULL, 5), (NULL, 'c', NULL)) AS v(x, y, z);
--> NULL | a | a | a | 5

SELECT max_by(y, x) FROM (VALUES (1, 'a')) AS v(x, y) WHERE false;
--> NULL

SELECT g, collect_list(x ORDER BY x), list(x ORDER BY x), group_concat(s, '+' ORDER BY s DESC) FROM (VALUES (1, 2, 'a'), (1, NULL, 'b'), (1, 1, NULL), (2, NULL, NULL)) AS v(g, x, s) GROUP BY g ORDER BY g;
--> 1 | [1, 2] | [1, 2, NULL] | b+a
--> 2 | [] | [NULL] | NULL

SELECT count_if(x > 1) OVER (ORDER BY x) FROM (VALUES (1), (2), (3)) AS v(x) ORDER BY x;
--> 0
--> 1
--> 2

SELECT if(column2 > 2, 'more', 'less'), iff(NULL, 1, 2), isnull(column3), equal_null(column2, NULL), nullifzero(0), zeroifnull(column2) FROM t ORDER BY column2;
--> more | 2 | false | false | NULL | 3
--> less | 2 | true | true | NULL | 0

SELECT base64('duck'), CAST(unbase64('ZHVjaw==') AS TEXT), regexp_substr('a-12-b3', '[0-9]+'), regexp_substr('ab', '[0-9]+'), regexp_substr(NULL, 'a'), locate('b', 'abc'), space(2) || 'x';
--> ZHVjaw== | duck | 12 | NULL | NULL | 2 |   x

SELECT percentile(x, 0.25), variance(x), every(x > 0) FROM (VALUES (1.0e0), (2.0e0), (4.0e0), (8.0e0)) AS v(x);
--> 1.75 | 9.583333333333334 | true

SELECT year(DATE '2024-01-01', 2);
--> refused: takes 1 argument

SELECT lcase(column3) OVER () FROM t;
--> refused: a clause that the function lcase does not have

SELECT pmod(random(), 3);
--> refused: within an argument of pmod
