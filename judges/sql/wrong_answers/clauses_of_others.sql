-- Clauses that DuckDB has besides, with its answers.
CREATE TABLE a AS SELECT * FROM (VALUES (1, 10), (1, 20), (1, 20), (2, 5), (3, NULL)) AS v(k, t);
CREATE TABLE b AS SELECT * FROM (VALUES (1, 5, 'x'), (1, 15, 'y'), (2, 6, 'z'), (2, NULL, 'n')) AS v(k, t, s);

-- The nearest row before, or behind.
SELECT * FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t;
--> 1 | 10 | 1 | 5 | x
--> 1 | 20 | 1 | 15 | y
--> 1 | 20 | 1 | 15 | y

SELECT * FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.t >= b.t;
--> 1 | 10 | 1 | 5 | x
--> 1 | 20 | 1 | 15 | y
--> 1 | 20 | 1 | 15 | y
--> 2 | 5 | NULL | NULL | NULL
--> 3 | NULL | NULL | NULL | NULL

SELECT * FROM a ASOF JOIN b ON a.t > b.t;
--> 1 | 10 | 2 | 6 | z
--> 1 | 20 | 1 | 15 | y
--> 1 | 20 | 1 | 15 | y

SELECT * FROM a ASOF JOIN b ON a.t <= b.t;
--> 1 | 10 | 1 | 15 | y
--> 2 | 5 | 1 | 5 | x

SELECT * FROM a ASOF JOIN b ON b.t > a.t AND a.k = b.k;
--> 1 | 10 | 1 | 15 | y
--> 2 | 5 | 2 | 6 | z

SELECT * FROM a ASOF LEFT OUTER JOIN b USING (k, t);
--> 1 | 10 | x
--> 1 | 20 | y
--> 1 | 20 | y
--> 2 | 5 | NULL
--> 3 | NULL | NULL

SELECT * FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t AND b.s <> 'y';
--> 1 | 10 | 1 | 5 | x
--> 1 | 20 | 1 | 5 | x
--> 1 | 20 | 1 | 5 | x

SELECT x.t, y.s, z.t FROM a x ASOF INNER JOIN b AS y ON x.k = y.k AND x.t + 1 >= y.t * 2 JOIN a z ON z.k = x.k AND z.t = 10;
--> 10 | x | 10
--> 20 | x | 10
--> 20 | x | 10

SELECT * FROM a ASOF JOIN b ON a.k = b.k;
--> refused: an ASOF JOIN without one comparison

SELECT * FROM a ASOF JOIN b ON a.k < b.k AND a.t >= b.t;
--> refused: an ASOF JOIN without one comparison

SELECT * FROM a ASOF JOIN b ON a.k = b.k AND t >= b.t;
--> refused: the column t without its table

SELECT * FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t OR true;
--> refused: OR in the condition of an ASOF JOIN

SELECT * FROM a ASOF JOIN b ON a.k = b.k AND b.t >= b.k;
--> refused: has not one table on each side

SELECT * FROM a ASOF RIGHT JOIN b ON a.k = b.k AND a.t >= b.t;
--> refused: ASOF RIGHT JOIN

SELECT * FROM a POSITIONAL JOIN b;
--> refused: POSITIONAL JOIN

-- Columns by their names.
SELECT COLUMNS('[tk]'), s FROM b ORDER BY s DESC LIMIT 1;
--> 2 | 6 | z

SELECT min(COLUMNS(* EXCLUDE (s))), count(COLUMNS(['S', 'k'])), max(COLUMNS(b.*)) FROM b;
--> 1 | 5 | 4 | 4 | 2 | 15 | z

CREATE TABLE c AS SELECT COLUMNS('(.)') AS 'c_\1', sum(COLUMNS('t')) OVER () FROM b;

SELECT c_k, c_t, c_s, t FROM c WHERE c_s = 'x';
--> 1 | 5 | x | 26

SELECT k, sum(COLUMNS('t')) FROM a GROUP BY ALL ORDER BY k;
--> 1 | 50
--> 2 | 5
--> 3 | NULL

SELECT x.k + COLUMNS(y.*) FROM a AS x JOIN (SELECT 100 AS p, 200 AS q) AS y ON x.k = 3;
--> 103 | 203

SELECT COLUMNS('K') FROM b;
--> refused: the columns are

SELECT COLUMNS(['k', 'zz']) FROM b;
--> refused: COLUMNS names zz

SELECT COLUMNS('k') + COLUMNS('t') FROM b;
--> refused: several sets of COLUMNS

SELECT COLUMNS(x -> x = 'k') FROM b;
--> refused: COLUMNS('regular expression')

SELECT k FROM b WHERE COLUMNS('t') > 1;
--> refused: among the columns of a SELECT

SELECT COLUMNS('k') FROM a JOIN b USING (k);
--> refused: COLUMNS

-- Comprehensions of lists.
SELECT [x + 1 FOR x IN [1, 2, 3] IF x > 1], [[y * x FOR y IN [1, 2]] FOR x IN [1, 2]], [x FOR x IN [1, NULL, 3] IF x > 1], [upper(x) FOR x IN [s, 'q'] IF x <> 'y'] FROM b WHERE s IN ('x', 'y');
--> [3, 4] | [[1, 2], [2, 4]] | [3] | [X, Q]
--> [3, 4] | [[1, 2], [2, 4]] | [3] | [Q]

SELECT substring('hello' FROM 2 FOR 3), [x FOR x IN if(true, [1], [2])];
--> ell | [1]

SELECT [x * i FOR x, i IN [5, 6]];
--> refused: more than one name

-- Samples.
SELECT count(*) FROM a USING SAMPLE 3;
--> 3

SELECT count(*) FROM a AS x WHERE true USING SAMPLE 100 PERCENT (bernoulli);
--> 5

SELECT count(*) FROM (SELECT * FROM a, b) AS x TABLESAMPLE reservoir(7 ROWS);
--> 7

SELECT count(*) FROM a TABLESAMPLE 0%;
--> 0

SELECT k FROM a TABLESAMPLE 100% WHERE k = 2 ORDER BY k;
--> 2

SELECT count(*) FROM a, b USING SAMPLE 3;
--> refused: USING SAMPLE of other than one table

SELECT count(*) FROM a USING SAMPLE 10% (system);
--> refused: TABLESAMPLE SYSTEM

SELECT count(*) FROM a USING SAMPLE reservoir(10%);
--> refused: reservoir of a share

SELECT count(*) FROM a TABLESAMPLE 10% REPEATABLE (3);
--> refused: REPEATABLE

-- Variables of the session.
SET VARIABLE low = 5 + 1;

SET VARIABLE Name TO upper('x');

SELECT getvariable('low') + 1, getvariable('LOW'), getvariable('name') || '!', getvariable('none'), getvariable(NULL), typeof(getvariable('low'));
--> 7 | 6 | X! | NULL | NULL | BIGINT

SELECT s FROM b WHERE t >= getvariable('low') ORDER BY s;
--> y
--> z

SET VARIABLE l = [1, 2];

SELECT getvariable('l')[2], [x FOR x IN getvariable('l') IF x < 2];
--> 2 | [1]

SET VARIABLE low = getvariable('low') * 10;

SELECT getvariable('low');
--> 60

SET VARIABLE d = 1.50::DECIMAL(5, 2) / 0.3;

SELECT getvariable('d');
--> 5.000000

SET VARIABLE low = 1 / 0;
--> refused: zero

SELECT getvariable('low');
--> 60

RESET VARIABLE low;

RESET VARIABLE never;

SELECT getvariable('low');
--> NULL

SET VARIABLE q = (SELECT max(t) FROM a);
--> refused: SET VARIABLE to the answer of a query

SET VARIABLE q = t;
--> refused: t

SELECT getvariable(s) FROM b;
--> refused: between quotes

EXPLAIN SET VARIABLE q = 1;
--> refused: SET VARIABLE within another statement

SELECT 'abc' NOT GLOB 'a*', 'abc' NOT GLOB 'b*', NULL NOT GLOB 'a', NOT 'abc' GLOB 'b*';
--> false | true | NULL | true

INSERT INTO a VALUES (9, 9) RETURNING k;
--> refused: RETURNING

SELECT count(*) FROM a;
--> 5

SELECT k FROM a FETCH FIRST 50 PERCENT ROWS ONLY;
--> refused: FETCH … PERCENT
