-- Subqueries: an aggregate of columns of the query around, and DISTINCT ON.

CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20), (3, 30)) AS v(k, x);
CREATE TABLE s AS SELECT * FROM (VALUES (1, 'a', 5), (1, 'a', 7), (1, 'b', 6), (2, 'c', 8)) AS v(k, g, y);

SELECT (SELECT max(t.x)) FROM t;
--> refused: which is an aggregate of the query around
SELECT (SELECT sum(t.x) FROM s) FROM t;
--> refused: which is an aggregate of the query around
SELECT k FROM t WHERE 20 = (SELECT min(t.x) FROM s WHERE s.k = t.k);
--> refused: which is an aggregate of the query around
SELECT (SELECT sum(t.x + s.y) FROM s WHERE s.k = t.k) FROM t;
--> 48
--> 28
--> NULL
SELECT (SELECT count(*) FROM s WHERE s.k = t.k) FROM t;
--> 3
--> 1
--> 0
SELECT k, (SELECT max(y) FROM s WHERE s.k = t.k) + sum(x) FROM t GROUP BY k;
--> 1 | 17
--> 2 | 28
--> 3 | NULL

SELECT k, (SELECT sum(y) FROM (SELECT DISTINCT ON (g) g, y FROM s WHERE s.k = t.k ORDER BY g, y DESC) AS d) FROM t;
--> 1 | 13
--> 2 | 8
--> 3 | NULL
SELECT k FROM t WHERE EXISTS (SELECT DISTINCT ON (s.g) s.y FROM s WHERE s.k = t.k);
--> 1
--> 2
SELECT k, y FROM t, LATERAL (SELECT DISTINCT ON (g) g, y FROM s WHERE s.k = t.k order by g, y) AS d;
--> 1 | 5
--> 1 | 6
--> 2 | 8
SELECT DISTINCT ON (g) g, y FROM s ORDER BY g, y DESC;
--> a | 7
--> b | 6
--> c | 8
