-- Keys that differ by a cast only.
CREATE TABLE t AS SELECT * FROM (VALUES (TIMESTAMP '2024-01-01 10:00:00', 1.4, '1'), (TIMESTAMP '2024-01-01 11:00:00', 1.2, '1'), (TIMESTAMP '2024-01-01 11:00:00', 1.4, '2')) AS v(ts, n, c);

SELECT ts::DATE AS d, ts, count(*) FROM t GROUP BY 1, 2;
--> 2024-01-01 | 2024-01-01T10:00:00 | 1
--> 2024-01-01 | 2024-01-01T11:00:00 | 2

SELECT ts::DATE, ts, count(*) FROM t GROUP BY ts::DATE, ts;
--> 2024-01-01 | 2024-01-01T10:00:00 | 1
--> 2024-01-01 | 2024-01-01T11:00:00 | 2

SELECT ts::DATE AS d, ts, count(*) FROM t GROUP BY CAST(ts AS DATE), ts ORDER BY d, ts;
--> 2024-01-01 | 2024-01-01T10:00:00 | 1
--> 2024-01-01 | 2024-01-01T11:00:00 | 2

SELECT n, n::INT, sum(n) FROM t GROUP BY n, n::INT HAVING n::INT = 1 ORDER BY n;
--> 1.2 | 1 | 1.2
--> 1.4 | 1 | 2.8

SELECT n::INT AS i, n::BIGINT AS j, n FROM t GROUP BY ALL;
--> 1 | 1 | 1.2
--> 1 | 1 | 1.4

SELECT ts::DATE, ts FROM t GROUP BY ROLLUP (ts::DATE, ts);
--> 2024-01-01 | 2024-01-01T10:00:00
--> 2024-01-01 | 2024-01-01T11:00:00
--> 2024-01-01 | NULL
--> NULL | NULL

SELECT row_number() OVER (PARTITION BY n::INT ORDER BY n, ts) AS a, row_number() OVER (PARTITION BY n ORDER BY n, ts) AS b FROM t;
--> 1 | 1
--> 2 | 1
--> 3 | 2

SELECT rank() OVER (ORDER BY n::INT) AS a, rank() OVER (ORDER BY n) AS b FROM t;
--> 1 | 1
--> 1 | 2
--> 1 | 2

SELECT sum(n) OVER (ORDER BY n::INT), sum(n) OVER (ORDER BY n) FROM t;
--> 4.0 | 1.2
--> 4.0 | 4.0
--> 4.0 | 4.0

SELECT count(DISTINCT n::INT), count(DISTINCT n) FROM t;
--> 1 | 2

SELECT c, TRY_CAST(c AS INT) + 1, count(*) FROM t GROUP BY c, TRY_CAST(c AS INT) + 1;
--> 1 | 2 | 2
--> 2 | 3 | 1

SELECT upper(c::TEXT) AS u, upper(c) AS v, count(*) FROM t GROUP BY 1, 2;
--> 1 | 1 | 2
--> 2 | 2 | 1

SELECT DISTINCT ts::DATE, ts FROM t;
--> 2024-01-01 | 2024-01-01T10:00:00
--> 2024-01-01 | 2024-01-01T11:00:00

SELECT x.n, x.n::INT FROM t AS x JOIN t AS y ON x.n = y.n GROUP BY x.n, x.n::INT;
--> 1.2 | 1
--> 1.4 | 1

SELECT d, ts, k FROM (SELECT ts::DATE AS d, ts, count(*) AS k FROM t GROUP BY 1, 2) AS q WHERE k > 1;
--> 2024-01-01 | 2024-01-01T11:00:00 | 2

SELECT n FROM t GROUP BY n, n::INT, n::BIGINT;
--> 1.2
--> 1.4

CREATE VIEW v AS SELECT ts::DATE AS d, ts, count(*) AS k FROM t GROUP BY 1, 2;

SELECT d, ts, k FROM v;
--> 2024-01-01 | 2024-01-01T10:00:00 | 1
--> 2024-01-01 | 2024-01-01T11:00:00 | 2
