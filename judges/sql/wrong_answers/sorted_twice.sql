-- Rows that are sorted by one column, and then by it and another.
COPY (SELECT * FROM (VALUES (1, 5), (1, 1), (2, 4)) AS v(c, k)) TO '~/a.parquet';

COPY (SELECT * FROM (VALUES (1, 2), (2, 7), (2, 3)) AS v(c, k)) TO '~/b.parquet';

COPY (SELECT * FROM (VALUES (2, 6), (1, 8), (1, 0)) AS v(c, k)) TO '~/c.parquet';

SELECT * FROM (SELECT * FROM '~/?.parquet' ORDER BY c LIMIT 100) AS q ORDER BY c, k;
--> 1 | 0
--> 1 | 1
--> 1 | 2
--> 1 | 5
--> 1 | 8
--> 2 | 3
--> 2 | 4
--> 2 | 6
--> 2 | 7

SELECT c, k, rank() OVER (PARTITION BY c ORDER BY k) AS r FROM (SELECT * FROM '~/?.parquet' ORDER BY c LIMIT 100) AS q;
--> 1 | 0 | 1
--> 1 | 1 | 2
--> 1 | 2 | 3
--> 1 | 5 | 4
--> 1 | 8 | 5
--> 2 | 3 | 1
--> 2 | 4 | 2
--> 2 | 6 | 3
--> 2 | 7 | 4

-- An order of each input of a UNION ALL is none of all of them.
SELECT * FROM (SELECT * FROM (SELECT k, row_number() OVER (ORDER BY k) AS w FROM '~/a.parquet' UNION ALL SELECT k + 50, row_number() OVER (ORDER BY k) AS w FROM '~/b.parquet') AS u ORDER BY k LIMIT 100) AS q ORDER BY w, k DESC;
--> 52 | 1
--> 1 | 1
--> 53 | 2
--> 4 | 2
--> 57 | 3
--> 5 | 3

SELECT k, rank() OVER (ORDER BY w) AS r FROM (SELECT * FROM (SELECT k, row_number() OVER (ORDER BY k) AS w FROM '~/a.parquet' UNION ALL SELECT k + 50, row_number() OVER (ORDER BY k) AS w FROM '~/b.parquet') AS u ORDER BY k LIMIT 100) AS q;
--> 1 | 1
--> 4 | 3
--> 5 | 5
--> 52 | 1
--> 53 | 3
--> 57 | 5

-- Groups of which another column stands in the place of the key.
CREATE TABLE t AS SELECT * FROM (VALUES ('d'), ('c'), ('b'), ('a'), ('z'), ('z')) AS v(k);

SELECT * FROM (SELECT count(*) AS c, k FROM t GROUP BY k ORDER BY c LIMIT 10) AS q ORDER BY c, k;
--> 1 | a
--> 1 | b
--> 1 | c
--> 1 | d
--> 2 | z

SELECT c, k FROM (SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c LIMIT 10) AS q ORDER BY c, k DESC;
--> 1 | d
--> 1 | c
--> 1 | b
--> 1 | a
--> 2 | z

SELECT c, k, rank() OVER (PARTITION BY c ORDER BY k) AS r FROM (SELECT count(*) AS c, k FROM t GROUP BY k ORDER BY c LIMIT 10) AS q;
--> 1 | a | 1
--> 1 | b | 2
--> 1 | c | 3
--> 1 | d | 4
--> 2 | z | 1

SELECT c, k, rank() OVER (ORDER BY c) AS r, row_number() OVER (ORDER BY c, k DESC) AS n FROM (SELECT count(*) AS c, k FROM t GROUP BY k) AS q ORDER BY n;
--> 1 | d | 1 | 1
--> 1 | c | 1 | 2
--> 1 | b | 1 | 3
--> 1 | a | 1 | 4
--> 2 | z | 5 | 5

SELECT c, string_agg(k, '' ORDER BY k) AS s FROM (SELECT count(*) AS c, k FROM t GROUP BY k ORDER BY c LIMIT 10) AS q GROUP BY c ORDER BY c;
--> 1 | abcd
--> 2 | z

-- A second GROUP BY, and a filter between.
SELECT c, k FROM (SELECT c, k FROM (SELECT k, count(*) AS c FROM t GROUP BY k) AS q GROUP BY c, k ORDER BY c LIMIT 10) AS r ORDER BY c, k;
--> 1 | a
--> 1 | b
--> 1 | c
--> 1 | d
--> 2 | z

SELECT c, k FROM (SELECT c, k FROM (SELECT k, count(*) AS c, max(k) AS m FROM t GROUP BY k) AS q WHERE m < 'y' ORDER BY c LIMIT 10) AS r ORDER BY c, k;
--> 1 | a
--> 1 | b
--> 1 | c
--> 1 | d

-- The order of a window, whose count is not unique.
CREATE TABLE u AS SELECT * FROM (VALUES (1, 5, 1), (2, 4, NULL), (3, 5, NULL), (4, 4, NULL), (5, 5, NULL), (6, 4, 1), (7, 5, NULL), (8, 4, NULL)) AS v(h, b, f);

SELECT c, l FROM (SELECT count(f) OVER (ORDER BY h, b DESC) AS c, lead(b, 2) OVER (ORDER BY h, b DESC) AS l FROM (SELECT h, max(b) AS b, max(f) AS f FROM u GROUP BY h) AS k) AS q ORDER BY c, l;
--> 1 | 4
--> 1 | 4
--> 1 | 5
--> 1 | 5
--> 1 | 5
--> 2 | 4
--> 2 | NULL
--> 2 | NULL

SELECT c, l, rank() OVER (PARTITION BY c ORDER BY l) AS r, count(*) OVER (PARTITION BY c, l ORDER BY l, c) AS n FROM (SELECT count(f) OVER (ORDER BY h, b DESC) AS c, lead(b, 2) OVER (ORDER BY h, b DESC) AS l FROM (SELECT h, max(b) AS b, max(f) AS f FROM u GROUP BY h) AS k) AS q;
--> 1 | 4 | 1 | 2
--> 1 | 4 | 1 | 2
--> 1 | 5 | 3 | 3
--> 1 | 5 | 3 | 3
--> 1 | 5 | 3 | 3
--> 2 | 4 | 1 | 1
--> 2 | NULL | 2 | 2
--> 2 | NULL | 2 | 2

-- Rows of two grouping sets may be alike in all keys.
CREATE TABLE s AS SELECT * FROM (VALUES (1, NULL, 1), (1, 2, 1), (1, 2, 1), (1, NULL, 1), (1, NULL, 1)) AS v(a, b, c);

SELECT a, b, c, n FROM (SELECT a, b, c, count(*) AS n FROM s GROUP BY GROUPING SETS ((a, b, c), (a, c)) ORDER BY a, b, c LIMIT 10) AS q ORDER BY a, b, c, n DESC;
--> 1 | 2 | 1 | 2
--> 1 | NULL | 1 | 5
--> 1 | NULL | 1 | 3

SELECT a, b, c, n FROM (SELECT a, b, c, count(*) AS n FROM s GROUP BY GROUPING SETS ((a, b, c), (a, c)) ORDER BY a, b, c LIMIT 10) AS q ORDER BY a, b, c, n;
--> 1 | 2 | 1 | 2
--> 1 | NULL | 1 | 3
--> 1 | NULL | 1 | 5
