-- Keys of groups that are dropped because another column is believed to determine them.
CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20), (2, 20), (3, 30)) AS v(v, w);
CREATE TABLE s AS SELECT * FROM (VALUES (1, 7), (1, 8), (2, 7)) AS v(k, m);

SELECT DISTINCT v FROM (SELECT s.m, d.v FROM (SELECT DISTINCT v FROM t) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v);
--> 1
--> 2
--> 3

SELECT DISTINCT v FROM (SELECT DISTINCT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v);
--> 1
--> 2
--> 3

SELECT v FROM (SELECT s.m, d.v FROM (SELECT DISTINCT v FROM t) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v) ORDER BY v;
--> 1
--> 1
--> 2
--> 2
--> 3
--> 3

SELECT v, m FROM (SELECT DISTINCT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v) ORDER BY v, m DESC;
--> 1 | 8
--> 1 | 7
--> 2 | 8
--> 2 | 7
--> 3 | 8
--> 3 | 7

SELECT v, count(*) FROM (SELECT s.m, d.v FROM (SELECT v, max(w) AS w FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v) GROUP BY v;
--> 1 | 2
--> 2 | 2
--> 3 | 2

SELECT count(*) FROM (SELECT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v);
--> 6

SELECT count(*) FROM (SELECT DISTINCT v, m FROM (SELECT d.v, s.m FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v));
--> 6

SELECT count(DISTINCT v), count(v) FROM (SELECT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v);
--> 3 | 6

SELECT v, sum(v) OVER (ORDER BY v) AS r FROM (SELECT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v);
--> 1 | 2
--> 1 | 2
--> 2 | 6
--> 2 | 6
--> 3 | 12
--> 3 | 12

SELECT x.v FROM t AS x WHERE x.v IN (SELECT q.v FROM (SELECT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v) AS q JOIN s ON s.m = q.m);
--> 1
--> 2
--> 2
--> 3

SELECT l.k, q.v FROM s AS l LEFT JOIN (SELECT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v) AS q ON l.k = q.v;
--> 1 | 1
--> 1 | 1
--> 1 | 1
--> 1 | 1
--> 2 | 2
--> 2 | 2

SELECT count(*) FROM (SELECT l.k FROM s AS l LEFT JOIN (SELECT s.m, d.v FROM (SELECT v FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY s.m, d.v) AS q ON l.k = q.v);
--> 6

SELECT DISTINCT v FROM (SELECT v, unnest([1, 2]) AS u FROM (SELECT v FROM t GROUP BY v) AS d);
--> 1
--> 2
--> 3

SELECT v, u FROM (SELECT v, unnest([2, 1]) AS u FROM (SELECT v FROM t GROUP BY v) AS d) ORDER BY v, u;
--> 1 | 1
--> 1 | 2
--> 2 | 1
--> 2 | 2
--> 3 | 1
--> 3 | 2

SELECT DISTINCT v FROM (SELECT v, row_number() OVER () AS r FROM t) AS q;
--> 1
--> 2
--> 3

WITH RECURSIVE r AS (SELECT v FROM t GROUP BY v UNION ALL SELECT v + 1 FROM r WHERE v < 3) SELECT DISTINCT v FROM r;
--> 1
--> 2
--> 3

SELECT DISTINCT v FROM (SELECT v FROM t GROUP BY v UNION ALL SELECT v FROM t GROUP BY v);
--> 1
--> 2
--> 3

SELECT d.v, max(s.m) FROM (SELECT v, max(w) AS w FROM t GROUP BY v) AS d JOIN s ON s.k <= d.v GROUP BY d.v, d.w;
--> 1 | 8
--> 2 | 8
--> 3 | 8

-- Tuples among the keys, and products of grouping sets.
CREATE TABLE g AS SELECT * FROM (VALUES (1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 2, 2)) AS v(c1, c2, c3);

SELECT c1, c2, c3, count(*) FROM g GROUP BY GROUPING SETS ((c1, c2), c3), (c1, c2);
--> 1 | 1 | 1 | 1
--> 1 | 1 | 2 | 1
--> 1 | 1 | NULL | 2
--> 1 | 2 | 1 | 1
--> 1 | 2 | NULL | 1
--> 2 | 2 | 2 | 1
--> 2 | 2 | NULL | 1

SELECT c1, c2, c3, count(*) FROM g GROUP BY GROUPING SETS ((c1, c2), (c3)), c1;
--> 1 | 1 | NULL | 2
--> 1 | 2 | NULL | 1
--> 1 | NULL | 1 | 2
--> 1 | NULL | 2 | 1
--> 2 | 2 | NULL | 1
--> 2 | NULL | 2 | 1

SELECT c1, c2, c3, count(*) FROM g GROUP BY c1, (c2, c3);
--> 1 | 1 | 1 | 1
--> 1 | 1 | 2 | 1
--> 1 | 2 | 1 | 1
--> 2 | 2 | 2 | 1

SELECT c1, c2, c3, count(*) FROM g GROUP BY ROLLUP ((c1, c2), c3);
--> 1 | 1 | 1 | 1
--> 1 | 1 | 2 | 1
--> 1 | 1 | NULL | 2
--> 1 | 2 | 1 | 1
--> 1 | 2 | NULL | 1
--> 2 | 2 | 2 | 1
--> 2 | 2 | NULL | 1
--> NULL | NULL | NULL | 4

SELECT c1, c2, c3, count(*) FROM g GROUP BY CUBE ((c1, c2), c3);
--> 1 | 1 | 1 | 1
--> 1 | 1 | 2 | 1
--> 1 | 1 | NULL | 2
--> 1 | 2 | 1 | 1
--> 1 | 2 | NULL | 1
--> 2 | 2 | 2 | 1
--> 2 | 2 | NULL | 1
--> NULL | NULL | 1 | 2
--> NULL | NULL | 2 | 2
--> NULL | NULL | NULL | 4

SELECT c1, c2, c3, count(*) FROM g GROUP BY ROLLUP (c1), CUBE (c2, c3);
--> 1 | 1 | 1 | 1
--> 1 | 1 | 2 | 1
--> 1 | 1 | NULL | 2
--> 1 | 2 | 1 | 1
--> 1 | 2 | NULL | 1
--> 1 | NULL | 1 | 2
--> 1 | NULL | 2 | 1
--> 1 | NULL | NULL | 3
--> 2 | 2 | 2 | 1
--> 2 | 2 | NULL | 1
--> 2 | NULL | 2 | 1
--> 2 | NULL | NULL | 1
--> NULL | 1 | 1 | 1
--> NULL | 1 | 2 | 1
--> NULL | 1 | NULL | 2
--> NULL | 2 | 1 | 1
--> NULL | 2 | 2 | 1
--> NULL | 2 | NULL | 2
--> NULL | NULL | 1 | 2
--> NULL | NULL | 2 | 2
--> NULL | NULL | NULL | 4

SELECT c1, c2, count(*), grouping(c1), grouping(c2) FROM g GROUP BY GROUPING SETS ((c1, c2), (c1), ()), GROUPING SETS ((c2), ());
--> 1 | 1 | 2 | 0 | 0
--> 1 | 1 | 2 | 0 | 0
--> 1 | 1 | 2 | 0 | 0
--> 1 | 2 | 1 | 0 | 0
--> 1 | 2 | 1 | 0 | 0
--> 1 | 2 | 1 | 0 | 0
--> 1 | NULL | 3 | 0 | 1
--> 2 | 2 | 1 | 0 | 0
--> 2 | 2 | 1 | 0 | 0
--> 2 | 2 | 1 | 0 | 0
--> 2 | NULL | 1 | 0 | 1
--> NULL | 1 | 2 | 1 | 0
--> NULL | 2 | 2 | 1 | 0
--> NULL | NULL | 4 | 1 | 1

SELECT c1, c2, count(*) FROM g GROUP BY GROUPING SETS ((c1), (c1), (c2));
--> 1 | NULL | 3
--> 1 | NULL | 3
--> 2 | NULL | 1
--> 2 | NULL | 1
--> NULL | 1 | 2
--> NULL | 2 | 2

SELECT count(*) FROM g GROUP BY ();
--> 4

-- A key that is there twice in ROLLUP or CUBE.
SELECT v, count(*) FROM t GROUP BY ROLLUP (t.v, v);
--> 1 | 1
--> 1 | 1
--> 2 | 2
--> 2 | 2
--> 3 | 1
--> 3 | 1
--> NULL | 4

SELECT v, count(*) FROM t GROUP BY ROLLUP ((v), v) HAVING count(*) > 1;
--> 2 | 2
--> 2 | 2
--> NULL | 4

SELECT v + 1, count(*) FROM t GROUP BY CUBE (v + 1, t.v + 1) HAVING count(*) > 1;
--> 3 | 2
--> 3 | 2
--> 3 | 2
--> NULL | 4

-- Places of items in grouping sets were constants.
SELECT a, b, count(1) FROM (VALUES (1, 2), (1, 3)) AS g(a, b) GROUP BY GROUPING SETS ((1), (b), (a, 2)) ORDER BY a, b;
--> 1 | 2 | 1
--> 1 | 3 | 1
--> 1 | NULL | 2
--> NULL | 2 | 1
--> NULL | 3 | 1

SELECT a, count(*) FROM (VALUES (1), (2)) AS g(a) GROUP BY ROLLUP (1) ORDER BY a;
--> 1 | 1
--> 2 | 1
--> NULL | 2

-- Keys that a join made equal are not equal any more above grouping sets.
CREATE TABLE alike_l AS SELECT * FROM (VALUES (1, 1)) AS v(a, b);

CREATE TABLE alike_r AS SELECT * FROM (VALUES (1)) AS v(c);

SELECT a, b, c FROM alike_l JOIN alike_r ON a = c GROUP BY CUBE (a, b, c) ORDER BY 1, 2, 3;
--> 1 | 1 | 1
--> 1 | 1 | NULL
--> 1 | NULL | 1
--> 1 | NULL | NULL
--> NULL | 1 | 1
--> NULL | 1 | NULL
--> NULL | NULL | 1
--> NULL | NULL | NULL

-- The first groups in an order were looked up by `==`: each NaN was a group of its own, or ended the query.
CREATE TABLE some_nan AS SELECT CASE WHEN i % 3 = 0 THEN double 'NaN' WHEN i % 3 = 1 THEN i * 0.5e0 END AS k, i AS v FROM generate_series(1, 20) AS g(i);

SELECT k, min(v) AS m FROM some_nan GROUP BY k ORDER BY m LIMIT 5;
--> 0.5 | 1
--> NULL | 2
--> NaN | 3
--> 2.0 | 4
--> 3.5 | 7

SELECT k, max(v) AS m FROM some_nan GROUP BY k ORDER BY m DESC LIMIT 4;
--> NULL | 20
--> 9.5 | 19
--> NaN | 18
--> 8.0 | 16

SELECT DISTINCT k FROM some_nan ORDER BY k DESC NULLS LAST LIMIT 3;
--> NaN
--> 9.5
--> 8.0

SELECT CAST(k AS REAL) AS k FROM some_nan GROUP BY 1 ORDER BY 1 NULLS FIRST LIMIT 9;
--> NULL
--> 0.5
--> 2.0
--> 3.5
--> 5.0
--> 6.5
--> 8.0
--> 9.5
--> NaN
