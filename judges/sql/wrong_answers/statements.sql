-- Clauses that were read and then ignored, or taken for something else.

CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 10), (2, 'a', 20), (3, 'b', 30), (4, NULL, 40)) AS v(n, g, x);
CREATE TABLE u AS SELECT * FROM (VALUES (1, 'one'), (3, 'three')) AS v(n, name);
CREATE TABLE w AS SELECT * FROM (VALUES (7), (8)) AS v(z);

-- TABLESAMPLE: all rows, or none; a number of rows; the rest is refused.
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (100);
--> 4
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (0);
--> 0
SELECT count(*) FROM t AS s TABLESAMPLE (3 ROWS) WHERE s.n < 9;
--> 3
SELECT count(*) BETWEEN 4000 AND 6000 FROM generate_series(1, 10000) TABLESAMPLE (50 PERCENT);
--> true
SELECT count(*) FROM (SELECT n FROM t) AS s TABLESAMPLE (2 ROWS);
--> 2
SELECT count(*) FROM t TABLESAMPLE SYSTEM (10);
--> refused: TABLESAMPLE SYSTEM
SELECT count(*) FROM t TABLESAMPLE (10);
--> refused: TABLESAMPLE without a unit
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (42);
--> refused: REPEATABLE
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (200);
--> refused: from 0 to 100

-- GROUP BY … WITH.
SELECT g, sum(x) FROM t WHERE n < 4 GROUP BY g WITH ROLLUP;
--> a | 30
--> b | 30
--> NULL | 60
SELECT g, n > 1 AS late, count(*) FROM t WHERE n < 4 GROUP BY g, n > 1 WITH CUBE;
--> a | false | 1
--> a | true | 1
--> b | true | 1
--> a | NULL | 2
--> b | NULL | 1
--> NULL | false | 1
--> NULL | true | 2
--> NULL | NULL | 3
SELECT g, sum(x) FROM t WHERE n < 4 GROUP BY 1 WITH ROLLUP;
--> a | 30
--> b | 30
--> NULL | 60
SELECT g, sum(x) FROM t GROUP BY g WITH TOTALS;
--> refused: WITH TOTALS

-- What stands behind a *.
SELECT * ILIKE '%N%' FROM t WHERE n = 1;
--> 1
SELECT * ILIKE 'g', 7 FROM t WHERE n = 3;
--> b | 7
SELECT t.* ILIKE 'X' FROM t JOIN u ON t.n = u.n;
--> 10
--> 30
SELECT * ILIKE 'nothing' FROM t;
--> refused: has to match one of
SELECT * REPLACE (n + 1 AS N) FROM t WHERE n = 1;
--> 2 | a | 10
SELECT * REPLACE (n + 1 AS "N") FROM t;
--> refused: REPLACE
SELECT * REPLACE (1 AS j) FROM t;
--> refused: REPLACE of a column that is not there
SELECT * EXCLUDE (X) FROM t WHERE n = 1;
--> 1 | a
SELECT * EXCLUDE (nothing) FROM t;
--> refused: nothing

-- Clauses of queries.
SELECT n FROM t FOR UPDATE;
--> refused: FOR UPDATE
SELECT n FROM t ORDER BY n FETCH FIRST 2 ROWS ONLY;
--> 1
--> 2
SELECT n FROM t ORDER BY n DESC OFFSET 1 ROWS FETCH NEXT ROW ONLY;
--> 3
SELECT n FROM t ORDER BY g FETCH FIRST 1 ROWS WITH TIES;
--> 1
--> 2
SELECT n, g AS k FROM t ORDER BY k DESC FETCH FIRST 2 ROWS WITH TIES;
--> 3 | b
--> 1 | a
--> 2 | a
SELECT g, count(*) AS c FROM t GROUP BY g order by c FETCH FIRST 1 ROWS WITH TIES;
--> b | 1
--> NULL | 1
SELECT n FROM t ORDER BY g OFFSET 1 FETCH FIRST 1 ROWS WITH TIES;
--> 2
SELECT DISTINCT g FROM t ORDER BY g FETCH FIRST 1 ROW WITH TIES;
--> a
SELECT n FROM t FETCH FIRST 1 ROWS WITH TIES;
--> refused: WITH TIES without ORDER BY
SELECT n FROM t FETCH FIRST 10 PERCENT ROWS ONLY;
--> refused: PERCENT
SET datafusion.sql_parser.dialect = 'duckdb';
SELECT n FROM t WHERE n > 2 UNION ALL SELECT n FROM u ORDER BY ALL DESC;
--> 4
--> 3
--> 3
--> 1
SET datafusion.sql_parser.dialect = 'generic';
WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 9 LIMIT 3) SELECT i FROM r;
--> refused: WITH RECURSIVE
WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT 2 ORDER BY 1 DESC LIMIT 1) SELECT i FROM r;
--> 2
WITH c AS MATERIALIZED (SELECT sum(x) AS s FROM t), d AS NOT MATERIALIZED (SELECT s + 1 AS s FROM c) SELECT c.s, d.s FROM c, d;
--> 100 | 101
WITH c AS MATERIALIZED (SELECT random() AS r) SELECT a.r = b.r FROM c AS a, c AS b;
--> refused: may be others the second time
WITH c AS (SELECT random() AS r) SELECT a.r = b.r FROM c AS a, c AS b;
--> refused: may be others the second time
WITH c AS (SELECT random() AS r) SELECT r < 1 FROM c;
--> true

-- A table made by a SELECT: by the outermost one.
SELECT n INTO made FROM t WHERE n < 3;
WITH c AS (SELECT 5 AS five) SELECT five INTO TEMPORARY made_too FROM c;
SELECT n + five FROM made, made_too;
--> 6
--> 7
SELECT * FROM (SELECT n INTO lost FROM t) AS s;
--> refused: INTO within a query
SELECT n INTO lost FROM t UNION ALL SELECT 1;
--> refused: INTO within a query

-- Joins without a condition, and without a common column.
SELECT count(*) FROM t JOIN w;
--> refused: JOIN without a condition
SELECT count(*) FROM t POSITIONAL JOIN w;
--> refused: POSITIONAL JOIN
SELECT count(*) FROM t LEFT JOIN w;
--> refused: JOIN without a condition
SELECT count(*) FROM t CROSS JOIN w;
--> 8
SELECT count(*) FROM t NATURAL JOIN w;
--> refused: NATURAL JOIN
SELECT count(*) FROM t NATURAL LEFT JOIN w;
--> refused: NATURAL JOIN
SELECT name FROM t NATURAL JOIN u WHERE x > 10;
--> three
SELECT count(*) FROM t JOIN u ON t.n = u.n NATURAL JOIN w;
--> refused: NATURAL JOIN

-- Intervals.
SELECT i = interval '30 years' FROM (SELECT interval 3 decades) AS s(i);
--> true
SELECT interval 2 weeks = interval '14 days', interval 2 months = interval '2 months', interval '3' hours = interval '3 hours';
--> true | true | true
SELECT date '2024-01-31' + interval 3 parsecs;
--> refused: an interval without a unit
SELECT interval '3';
--> refused: an interval without a unit
SELECT '47.21'::interval;
--> refused: an interval without a unit

-- Functions: clauses that the function knows nothing of.
SELECT any_value(x ORDER BY n) FROM t;
--> refused: ORDER BY in any_value
SELECT upper(DISTINCT g) FROM t;
--> refused: DISTINCT
SELECT upper(g) FILTER (WHERE n = 1) FROM t;
--> refused: FILTER
SELECT abs(n) OVER (ORDER BY n) FROM t;
--> refused: OVER
SELECT row_number() FILTER (WHERE n > 1) OVER (ORDER BY n) FROM t;
--> refused: FILTER
SELECT first_value(n) FILTER (WHERE n > 1) OVER (ORDER BY n) FROM t;
--> refused: FILTER
SELECT corr(DISTINCT n, x) FROM t;
--> refused: DISTINCT
SELECT array(SELECT n FROM t);
--> [1, 2, 3, 4]
SELECT sum(x) RESPECT NULLS FROM t;
--> refused: NULLS
SELECT trim('xay', 'x', 'y');
--> refused: trim

-- Windows by name, wherever they are used.
SELECT n FROM t WINDOW v AS (PARTITION BY g) QUALIFY sum(x) OVER v > 25;
--> 1
--> 2
--> 3
--> 4
SELECT n FROM t WINDOW v AS (PARTITION BY g ORDER BY n) ORDER BY row_number() OVER v DESC, n;
--> 2
--> 1
--> 3
--> 4
SELECT n, sum(x) OVER (v ORDER BY n) FROM t WHERE g = 'a' WINDOW v AS (PARTITION BY g);
--> 1 | 10
--> 2 | 30
SELECT sum(x) OVER nothing FROM t;
--> refused: OVER a window that has no definition

-- Definitions.
CREATE TABLE k (a INT PRIMARY KEY);
--> refused: PRIMARY KEY
CREATE TABLE k (a INT, UNIQUE (a));
--> refused: UNIQUE
CREATE TABLE k (a INT GENERATED ALWAYS AS IDENTITY);
--> refused: this option of a column
CREATE SCHEMA s AUTHORIZATION me;
--> refused: CREATE SCHEMA
COPY t TO '~/t.csv' STORED AS XLSX;
--> refused: STORED AS
SELECT arrow_typeof(1::float(53)), arrow_typeof(1::float(24));
--> Float64 | Float32

-- Lists beside the rows that they stand in.
CREATE TABLE tagged AS VALUES (1, [10, 20]), (2, []), (3, NULL);

SELECT s.column1, u.t FROM tagged AS s, unnest(s.column2) AS u(t);
--> 1 | 10
--> 1 | 20

SELECT s.column1, t FROM tagged AS s CROSS JOIN LATERAL unnest(column2) AS t WHERE t > 10;
--> 1 | 20

SELECT s.column1, u.t FROM tagged AS s CROSS JOIN LATERAL (SELECT unnest(s.column2) AS t) AS u;
--> 1 | 10
--> 1 | 20

SELECT s.column1, u.t FROM tagged AS s LEFT JOIN LATERAL unnest(s.column2) AS u(t) ON true;
--> 1 | 10
--> 1 | 20
--> 2 | NULL
--> 3 | NULL

SELECT a, t, v FROM (VALUES (1, [[1, 2], [3]])) AS s(a, l), unnest(s.l) AS u(t), unnest(u.t) AS w(v);
--> 1 | [1, 2] | 1
--> 1 | [1, 2] | 2
--> 1 | [3] | 3

SELECT s.column1, count(*) FROM tagged AS s JOIN LATERAL unnest(s.column2) AS u(t) ON u.t > s.column1 GROUP BY s.column1;
--> 1 | 2

-- Options of COPY as PostgreSQL and DuckDB write them.
COPY (VALUES (1, 'a;b')) TO '~/options.txt' (FORMAT csv, HEADER false, DELIMITER ';');

COPY (SELECT 1 AS a, 2 AS b) TO '~/parts' (FORMAT parquet, PARTITION_BY (b), COMPRESSION zstd);

SELECT a, b FROM '~/parts';
--> 1 | 2

COPY (SELECT 1 AS a) TO '~/options.csv' (FORCE_QUOTE a);
--> refused: COPY has no option
