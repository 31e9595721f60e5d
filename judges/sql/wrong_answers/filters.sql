-- What stands behind a filter, and was taken from the wrong place or for something else.
CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x', 7), (2, 'Y', 7), (3, NULL, 8), (4, 'x', 8)) AS v(n, c, g);
CREATE TABLE u AS SELECT * FROM (VALUES (1, 'x'), (2, 'z')) AS v(n, c);

-- A filter that passes some columns on only: a projection took their places for those before it.
SELECT r2.a, r3.a + r4.a FROM (SELECT n AS a FROM t) AS r1 FULL JOIN (SELECT n * 10 AS a FROM t) AS r2 ON r1.a = r2.a FULL JOIN (SELECT n * 10 AS a FROM u) AS r3 ON r3.a = r2.a FULL JOIN (SELECT n * 10 AS a FROM u) AS r4 ON r4.a = r3.a WHERE r1.a IS NULL;
--> 10 | 20
--> 20 | 40
--> 30 | NULL
--> 40 | NULL
SELECT max(c) FILTER (WHERE t.n > 0) FROM t FULL JOIN u USING (c) WHERE u.n IS NULL;
--> Y
SELECT c, t.n FROM t FULL JOIN u USING (c) WHERE u.n IS NULL;
--> Y | 2
--> NULL | 3
SELECT coalesce(t.c, u.c), t.n FROM t FULL JOIN u ON t.c = u.c WHERE u.n IS NULL;
--> Y | 2
--> NULL | 3

-- A column that is equal to what is computed of it.
SELECT c, count(*) OVER (PARTITION BY c) FROM t WHERE lower(c) = c;
--> x | 2
--> x | 2
SELECT c, sum(n) OVER (PARTITION BY c order by n) FROM t WHERE lower(c) = c;
--> x | 1
--> x | 5
SELECT n, row_number() OVER (PARTITION BY g, c order by n) FROM t WHERE abs(n) = n;
--> 1 | 1
--> 2 | 1
--> 3 | 1
--> 4 | 1
SELECT n, last_value(n) OVER (PARTITION BY g) FROM t WHERE nullif(g, 7) = g;
--> 3 | 4
--> 4 | 4
SELECT n FROM t WHERE abs(n) = n ORDER BY n DESC;
--> 4
--> 3
--> 2
--> 1
SELECT g, count(*) FROM t WHERE g = g + n - n GROUP BY g ORDER BY g DESC;
--> 8 | 2
--> 7 | 2
SELECT a.n, row_number() OVER (PARTITION BY a.c order by b.n) FROM t AS a JOIN u AS b ON lower(a.c) = b.c AND a.c = b.c;
--> 1 | 1
--> 4 | 2
