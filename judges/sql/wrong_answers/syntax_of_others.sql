-- What Spark's, DuckDB's and PostgreSQL's users write in other words means what it means there.
CREATE TABLE t AS SELECT * FROM (VALUES (1, 2), (3, 4), (1, NULL)) AS v(a, b);
CREATE TABLE l AS SELECT * FROM (VALUES (1, [1, 2]), (2, []), (3, NULL)) AS v(k, v);
CREATE TABLE s AS SELECT * FROM (VALUES ('x', 'q1', 1), ('x', 'q2', 2), ('y', 'q1', 3), ('y', NULL, 4)) AS v(name, q, n);

TABLE t ORDER BY a, b;
--> 1 | 2
--> 1 | NULL
--> 3 | 4

SELECT count(*) FROM (TABLE t UNION ALL TABLE t);
--> 6

SELECT a FROM t MINUS SELECT 1;
--> 3

SELECT 7 DIV 2, -7 DIV 2, 7 // 2, 7 DIV 2 + 1, 1_000_000, 1_0.2_5;
--> 3 | -3 | 3 | 4 | 1000000 | 10.25

SELECT 7.5 // 2;
--> refused: // of other numbers than integers

SELECT 1 DIV 0;
--> refused: zero

SELECT 'abc' RLIKE 'b', 'abc' NOT RLIKE 'b', NULL REGEXP 'b';
--> true | false | NULL

SELECT CAST(170141183460469231731 AS HUGEINT) * 1000, CAST(1 AS LONG);
--> 170141183460469231731000 | 1

-- A subquery may be the first value of a list.
SELECT 1 IN ((SELECT 1), 2), 2 IN ((SELECT 1), 2), 3 IN ((SELECT 1), NULL), 1 IN ((SELECT 1));
--> true | true | NULL | true

SELECT 1 IN ((SELECT 1), (SELECT 2)) AS a, 5 IN ((SELECT 2), (SELECT 1), 5) AS b, 3 IN ((SELECT 1 WHERE 2 IN ((SELECT 2), 4)), (SELECT 2)) AS c;
--> true | true | false

SELECT a FROM t WHERE a NOT IN ((SELECT 1), 2);
--> 3

-- Rows are compared with nulls: one that may be equal makes the answer unknown.
SELECT (1, 2) IN (SELECT a, b FROM t), (1, 3) IN (SELECT a, b FROM t), (3, 5) IN (SELECT a, b FROM t), (1, 3) NOT IN (SELECT a, b FROM t), (3, 5) NOT IN (SELECT a, b FROM t), (NULL, 4) IN (SELECT a, b FROM t), (NULL, 5) IN (SELECT a, b FROM t WHERE b IS NOT NULL);
--> true | NULL | false | NULL | true | NULL | false

SELECT x.a, x.b FROM t AS x WHERE (x.a, x.b) IN (SELECT y.a, y.b FROM t AS y WHERE y.b > 2);
--> 3 | 4

SELECT x.a FROM t AS x WHERE (x.a, x.b) NOT IN (SELECT y.a, y.b FROM t AS y WHERE y.b > 2) ORDER BY x.a;
--> 1
--> 1

SELECT (1, 2) IN (SELECT a, b FROM t WHERE false), (1, 2) NOT IN (SELECT a, b FROM t WHERE false);
--> false | true

SELECT array(SELECT b FROM t ORDER BY b DESC), array(SELECT a FROM t WHERE a > 1), array(SELECT a FROM t WHERE false), array(1, 2);
--> [4, 2, NULL] | [3] | [] | [1, 2]

SELECT array(SELECT a FROM t ORDER BY b);
--> refused: a query as the arguments of a function

-- Queries in one SELECT, of which DataFusion's names say nothing.
SELECT EXISTS(SELECT 1), EXISTS(SELECT 1 WHERE false), NOT EXISTS(SELECT 1), 1 IN (SELECT 1), 1 IN (SELECT 2), (SELECT 1) + 1, (SELECT 2) + 1;
--> true | false | false | true | false | 2 | 3

-- Joins that keep their left side.
SELECT a, b FROM t SEMI JOIN (VALUES (3)) AS u(a) USING (a);
--> 3 | 4

SELECT t.a FROM t ANTI JOIN (VALUES (3)) AS u(x) ON t.a = u.x;
--> 1
--> 1

-- An alias is an expression of the same SELECT, unless a column has its name.
SELECT a + 1 AS c, c * 2 AS d, d + c AS e FROM t WHERE c > 2;
--> 4 | 8 | 12

SELECT b AS a, a + 10 AS c FROM t ORDER BY c, b;
--> 2 | 11
--> NULL | 11
--> 4 | 13

SELECT a AS k, count(*) AS n, n * 2 AS m FROM t GROUP BY k HAVING n > 1;
--> 1 | 2 | 4

SELECT sum(b) AS s, s + 1 AS r, (SELECT max(x) FROM (SELECT a AS x FROM t) AS q) AS x FROM t;
--> 6 | 7 | 3

SELECT a AS x, row_number() OVER (ORDER BY x DESC, b) AS n FROM t ORDER BY n;
--> 3 | 1
--> 1 | 2
--> 1 | 3

SELECT 1 AS h, h + 1 AS i, i + 1;
--> 1 | 2 | 3

SELECT x.a AS a, y.b AS c, c + 1 AS d FROM t AS x JOIN t AS y USING (a) WHERE c > 2;
--> 3 | 4 | 5

SELECT (SELECT t.a + u.a AS z FROM (VALUES (1)) AS u(a) WHERE z > 0) AS z FROM t ORDER BY z;
--> 2
--> 2
--> 4

SELECT random() AS r, r - r FROM t;
--> refused: the alias 'r' of random()

SELECT a AS x, b AS x, x + 1 AS y FROM t;
--> refused: x

-- Lambdas.
SELECT list_transform([1, 2], x -> x + 1), array_filter([1, 2, 3], x -> x > 1), array_any_match([1, 2], x -> x = 2);
--> [2, 3] | [2, 3] | true

SELECT a, list_transform([a, b], a -> a * 10) AS l FROM t WHERE b > 2;
--> 3 | [30, 40]

SELECT list_transform([1, 2], lambda x : x + 1);
--> [2, 3]

-- Tables that are turned.
SELECT * FROM s PIVOT (sum(n) FOR q IN ('q1', 'q2' AS second)) ORDER BY name;
--> x | 1 | 2
--> y | 3 | NULL

SELECT name, "q1_total", "NULL_total", "q1_count(*)" FROM s PIVOT (sum(n) AS total, count(*) FOR q IN ('q1', NULL)) AS p ORDER BY name;
--> x | 1 | NULL | 1
--> y | 3 | 4 | 1

SELECT * FROM t PIVOT (count(b) FOR a IN (1, 2));
--> 1 | 0

SELECT * FROM s PIVOT (sum(n) FOR q IN (ANY));
--> refused: PIVOT on values that are not listed

SELECT * FROM (SELECT 7 AS k, a, b FROM t) UNPIVOT (v FOR n IN (a, b)) ORDER BY n, v;
--> 7 | a | 1
--> 7 | a | 1
--> 7 | a | 3
--> 7 | b | 2
--> 7 | b | 4

SELECT n, count(*), count(v) FROM t UNPIVOT INCLUDE NULLS (v FOR n IN (a AS "A", b)) GROUP BY n ORDER BY n;
--> A | 3 | 3
--> b | 3 | 2

SELECT k, x FROM l LATERAL VIEW explode(v) e AS x ORDER BY x;
--> 1 | 1
--> 1 | 2

SELECT k, x FROM l LATERAL VIEW OUTER explode(v) e AS x ORDER BY k, x;
--> 1 | 1
--> 1 | 2
--> 2 | NULL
--> 3 | NULL

SELECT k, i, x FROM l LATERAL VIEW posexplode(v) e AS i, x ORDER BY i;
--> 1 | 0 | 1
--> 1 | 1 | 2

SELECT a, count(*) FROM t GROUP BY a GROUPING SETS ((a), ()) ORDER BY a;
--> 1 | 2
--> 3 | 1
--> NULL | 3

-- Functions of the session.
CREATE MACRO twice(x) AS x * 2;

CREATE FUNCTION plus(x INT, y INT DEFAULT 1) RETURNS BIGINT RETURN x + y;

SELECT twice(a), plus(a), plus(a, twice(b)) FROM t WHERE b > 2;
--> 6 | 4 | 11

SELECT twice(twice(a)) AS x FROM t GROUP BY twice(twice(a)) ORDER BY twice(twice(a));
--> 4
--> 12

CREATE MACRO twice(x) AS x * 3;
--> refused: is there already

CREATE OR REPLACE MACRO twice(x) AS x + x;

SELECT twice(random()) FROM t;
--> refused: random() within an argument of twice

CREATE MACRO other(x) AS x + y;
--> refused: no argument 'y'

DROP MACRO twice;

SELECT twice(1);
--> refused: twice

-- Names of types, digits, parts of texts.
SELECT typeof(1), typeof(1.50), typeof('a'), typeof(1e0), typeof([1, 2]), typeof({'a': 1}), typeof(NULL), typeof(DATE '2024-01-01'), typeof(TIMESTAMP '2024-01-01'), typeof(now()), typeof(INTERVAL '1 day'), typeof(a) FROM t WHERE b = 2;
--> BIGINT | DECIMAL(3,2) | VARCHAR | DOUBLE | BIGINT[] | STRUCT(a BIGINT) | NULL | DATE | TIMESTAMP | TIMESTAMP WITH TIME ZONE | INTERVAL | BIGINT

DESCRIBE l;
--> k | BIGINT | NO
--> v | BIGINT[] | YES

SELECT hex(255), hex(-1), hex('aé'), hex(NULL), CAST(unhex('4475636B') AS TEXT), hex(unhex('F01'));
--> FF | FFFFFFFFFFFFFFFF | 61C3A9 | NULL | Duck | 0F01

SELECT unhex('0G');
--> refused: 'G' is no hexadecimal digit

SELECT hex(1.5);
--> refused: hex takes an integer, a text or bytes

SELECT regexp_extract('a1b2', '([a-z])([0-9])', 2), regexp_extract('a1b2', '[0-9]'), regexp_extract('x', '[0-9]'), regexp_extract(NULL, 'a'), regexp_extract('a', '(b)?a', 1), regexp_extract_all('a1b2', '([a-z])([0-9])', 0), regexp_extract_all('x', '[0-9]');
--> 1 | 1 |  | NULL |  | [a1, b2] | []

SELECT regexp_extract('a1', '([a-z])');
--> refused: groups, of which none is asked for

SELECT regexp_extract('a1', '([a-z])', 2);
--> refused: has no group 2

SELECT regexp_extract('a1', '(', 0);
--> refused: no regular expression

SELECT left(sha2('duck', 512), 6), sha2('duck', 1), sequence(3, 1), sort_array([3, NULL, 1]), string_split('a-b', '-'), string_split('ab', ''), string_split('ab', NULL), date_diff('week', DATE '2024-01-07', DATE '2024-01-08'), date_diff('hour', TIMESTAMP '2024-01-01 00:59:00', TIMESTAMP '2024-01-01 01:00:00'), datediff(DATE '2024-03-01', DATE '2024-02-28');
--> 09d8d7 | NULL | [3, 2, 1] | [NULL, 1, 3] | [a, b] | [a, b] | [ab] | 0 | 1 | 2

SELECT date_diff('fortnight', DATE '2024-01-07', DATE '2024-01-08');
--> refused: fortnight

SELECT k, explode(v) AS x FROM l ORDER BY x;
--> 1 | 1
--> 1 | 2

SELECT first(b ORDER BY a DESC), last(b ORDER BY a DESC, b NULLS FIRST) FROM t;
--> 4 | 2

TRUNCATE TABLE t;

SELECT count(*) FROM t;
--> 0

TRUNCATE t RESTART IDENTITY;
--> refused: TRUNCATE

-- A row for each column.
SUMMARIZE SELECT * FROM (VALUES (1, 'x', [1]), (3, 'y', NULL), (5, NULL, [])) AS v(a, "B c", l);
--> a | BIGINT | 1 | 5 | 3 | 3.0 | 2.0 | 1.5 | 3.0 | 4.5 | 3 | 0.00
--> B c | VARCHAR | x | y | 2 | NULL | NULL | NULL | NULL | NULL | 3 | 33.33
--> l | BIGINT[] | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | 3 | 33.33

SUMMARIZE l;
--> k | BIGINT | 1 | 3 | 3 | 2.0 | 1.0 | 1.25 | 2.0 | 2.75 | 3 | 0.00
--> v | BIGINT[] | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | 3 | 33.33

EXPLAIN SUMMARIZE l;

PREPARE p AS SUMMARIZE l;
--> refused: SUMMARIZE within another statement

-- Fields of values that are no columns.
SELECT (s).x, (s)."Y", [s][1].x, coalesce(s, s).x AS d FROM (SELECT {'x': 1, 'Y': 'b'} AS s) AS t;
--> 1 | b | 1 | 1

DESCRIBE SELECT 1 AS a;
--> a | BIGINT | NO

MERGE INTO l USING l AS m ON l.k = m.k WHEN MATCHED THEN DELETE;
--> refused: MERGE
