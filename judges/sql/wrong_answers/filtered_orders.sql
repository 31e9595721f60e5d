-- A filter by what an operator without an inverse makes of a column leaves more than one value of the column.
CREATE TABLE t AS SELECT * FROM (VALUES (7, 2.5, '02', TIMESTAMP '2024-01-01 12:00:00'), (6, 2.25, '2', TIMESTAMP '2024-01-01 10:00:00'), (7, 2.75, '2.0', TIMESTAMP '2024-01-01 11:00:00')) AS v(n, f, c, ts);

SELECT ts FROM t WHERE ts::DATE = DATE '2024-01-01' ORDER BY ts;
--> 2024-01-01T10:00:00
--> 2024-01-01T11:00:00
--> 2024-01-01T12:00:00

SELECT f FROM t WHERE f::BIGINT >= 2 AND f::BIGINT <= 3 AND floor(f)::INT = 2 ORDER BY f;
--> 2.25
--> 2.50
--> 2.75

SELECT n FROM t WHERE n / 2 = 3 ORDER BY n;
--> 6
--> 7
--> 7

SELECT n, count(*) FROM t WHERE n / 2 = 3 GROUP BY n ORDER BY n;
--> 6 | 1
--> 7 | 2

SELECT DISTINCT n FROM t WHERE n / 2 = 3;
--> 6
--> 7

SELECT n, row_number() OVER (ORDER BY n, f) FROM t WHERE n / 2 = 3 ORDER BY f;
--> 6 | 1
--> 7 | 2
--> 7 | 3

SELECT ts, sum(n) OVER (ORDER BY ts) FROM t WHERE ts::DATE = DATE '2024-01-01' ORDER BY ts;
--> 2024-01-01T10:00:00 | 6
--> 2024-01-01T11:00:00 | 13
--> 2024-01-01T12:00:00 | 20

SELECT c FROM t WHERE c::DOUBLE::INT = 2 ORDER BY c;
--> 02
--> 2
--> 2.0
