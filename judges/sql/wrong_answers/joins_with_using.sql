-- USING and NATURAL in joins of every kind: the merged column is that of the side which has the row.
CREATE TABLE a AS SELECT * FROM (VALUES (1, 'a1'), (2, 'a2'), (NULL, 'a3')) AS v(x, k);
CREATE TABLE b AS SELECT * FROM (VALUES ('b2', 2), ('b3', 3), ('b4', NULL)) AS v(m, x);
CREATE TABLE c AS SELECT * FROM (VALUES (3, 'c3'), (4, 'c4')) AS v(x, n);

SELECT x FROM (VALUES (1)) a(x) FULL JOIN (VALUES (2)) b(x) USING (x);
--> 1
--> 2

SELECT x FROM (VALUES (1)) a(x) RIGHT JOIN (VALUES (2)) b(x) USING (x);
--> 2

SELECT x, a.x, b.x FROM a FULL JOIN b USING (x);
--> 1 | 1 | NULL
--> 2 | 2 | 2
--> 3 | NULL | 3
--> NULL | NULL | NULL
--> NULL | NULL | NULL

SELECT x, a.x, b.x FROM a RIGHT JOIN b USING (x);
--> 2 | 2 | 2
--> 3 | NULL | 3
--> NULL | NULL | NULL

SELECT x, a.x, b.x FROM a LEFT JOIN b USING (x);
--> 1 | 1 | NULL
--> 2 | 2 | 2
--> NULL | NULL | NULL

SELECT x, a.x, b.x FROM a JOIN b USING (x);
--> 2 | 2 | 2

SELECT * FROM a FULL JOIN b USING (x);
--> 1 | a1 | NULL
--> 2 | a2 | b2
--> 3 | NULL | b3
--> NULL | a3 | NULL
--> NULL | NULL | b4

SELECT * FROM a RIGHT JOIN b USING (x);
--> 2 | a2 | b2
--> 3 | NULL | b3
--> NULL | NULL | b4

SELECT * FROM a NATURAL LEFT JOIN b;
--> 1 | a1 | NULL
--> 2 | a2 | b2
--> NULL | a3 | NULL

SELECT * FROM a NATURAL FULL JOIN b;
--> 1 | a1 | NULL
--> 2 | a2 | b2
--> 3 | NULL | b3
--> NULL | a3 | NULL
--> NULL | NULL | b4

SELECT a.*, b.* FROM a NATURAL FULL JOIN b;
--> 1 | a1 | NULL | NULL
--> 2 | a2 | b2 | 2
--> NULL | a3 | NULL | NULL
--> NULL | NULL | b3 | 3
--> NULL | NULL | b4 | NULL

SELECT b.* EXCLUDE (m), a.k FROM a RIGHT JOIN b USING (x);
--> 2 | a2
--> 3 | NULL
--> NULL | NULL

SELECT x, k, m, n FROM a FULL JOIN b USING (x) FULL JOIN c USING (x);
--> 1 | a1 | NULL | NULL
--> 2 | a2 | b2 | NULL
--> 3 | NULL | b3 | c3
--> 4 | NULL | NULL | c4
--> NULL | a3 | NULL | NULL
--> NULL | NULL | b4 | NULL

SELECT x, a.x, b.x, c.x FROM a FULL JOIN b USING (x) RIGHT JOIN c USING (x);
--> 3 | NULL | 3 | 3
--> 4 | NULL | NULL | 4

SELECT x, a.x, b.x, c.x FROM a RIGHT JOIN b USING (x) LEFT JOIN c USING (x);
--> 2 | 2 | 2 | NULL
--> 3 | NULL | 3 | 3
--> NULL | NULL | NULL | NULL

SELECT x, n FROM a NATURAL JOIN b NATURAL FULL JOIN c;
--> 2 | NULL
--> 3 | c3
--> 4 | c4

SELECT x FROM a FULL JOIN b USING (x) WHERE x > 1;
--> 2
--> 3

SELECT x, k FROM a LEFT JOIN b USING (x) WHERE b.x IS NULL;
--> 1 | a1
--> NULL | a3

SELECT x, count(*) FROM a FULL JOIN b USING (x) GROUP BY x;
--> 1 | 1
--> 2 | 1
--> 3 | 1
--> NULL | 2

SELECT x, count(b.x) FROM a FULL JOIN b USING (x) GROUP BY x HAVING x >= 2;
--> 2 | 1
--> 3 | 1

SELECT a.x, count(*) FROM a FULL JOIN b USING (x) GROUP BY a.x, x HAVING "x" > 2;
--> NULL | 1

SELECT x + 1 AS y FROM a FULL JOIN b USING (x) ORDER BY x DESC NULLS LAST;
--> 4
--> 3
--> 2
--> NULL
--> NULL

SELECT k FROM a FULL JOIN b USING (x) ORDER BY b.x NULLS LAST, k NULLS FIRST;
--> a2
--> NULL
--> NULL
--> a1
--> a3

SELECT sum(x) OVER (ORDER BY x ROWS UNBOUNDED PRECEDING) AS s FROM a FULL JOIN b USING (x) WHERE x IS NOT NULL;
--> 1
--> 3
--> 6

SELECT (SELECT count(*) FROM c WHERE c.x = b.x), x FROM a FULL JOIN b USING (x);
--> 0 | 1
--> 0 | 2
--> 0 | NULL
--> 0 | NULL
--> 1 | 3

SELECT x FROM a FULL JOIN b USING (x) WHERE EXISTS (SELECT 1 FROM (SELECT n FROM c) AS d WHERE d.n = 'c' || x);
--> 3

SELECT k, m FROM a FULL JOIN b USING (x) WHERE x IN (SELECT x FROM c);
--> NULL | b3

SELECT j.x, j.m FROM (a FULL JOIN b USING (x)) AS j;
--> 1 | NULL
--> 2 | b2
--> 3 | b3
--> NULL | b4
--> NULL | NULL

SELECT q.x, q.y FROM (SELECT x, b.x AS y FROM a FULL JOIN b USING (x)) AS q;
--> 1 | NULL
--> 2 | 2
--> 3 | 3
--> NULL | NULL
--> NULL | NULL

WITH w AS (SELECT * FROM a FULL JOIN b USING (x)) SELECT x, m FROM w FULL JOIN c USING (x);
--> 1 | NULL
--> 2 | b2
--> 3 | b3
--> 4 | NULL
--> NULL | b4
--> NULL | NULL

SELECT x, a.k, c.n FROM a JOIN b ON a.x = b.x - 1 FULL JOIN c USING (x);
--> refused: several columns of this name

SELECT a.x, y, b.x FROM a FULL JOIN (SELECT x AS y, x FROM b) AS b USING (x) JOIN (VALUES (2), (3)) AS v(w) ON w = x;
--> 2 | 2 | 2
--> NULL | 3 | 3

SELECT x, y FROM (SELECT x, x AS y FROM a) AS l FULL JOIN (SELECT x, x AS y FROM b) AS r USING (x, y);
--> 1 | 1
--> 2 | 2
--> 3 | 3
--> NULL | NULL
--> NULL | NULL

SELECT x FROM a FULL JOIN (SELECT x::BIGINT AS x FROM b) AS b USING (x);
--> 1
--> 2
--> 3
--> NULL
--> NULL

SELECT x, a.x, c.n FROM a RIGHT JOIN (b FULL JOIN c USING (x)) USING (x);
--> 2 | 2 | NULL
--> 3 | NULL | c3
--> 4 | NULL | c4
--> NULL | NULL | NULL

SELECT x, z FROM a LEFT JOIN b USING (x) JOIN LATERAL (SELECT b.x AS z) AS l ON true;
--> 1 | NULL
--> 2 | 2
--> NULL | NULL

SELECT x FROM a NATURAL JOIN (SELECT m FROM b) AS b;
--> refused: no column of the same name

SELECT x FROM a JOIN c ON true JOIN b USING (x);
--> refused: several columns of this name

SELECT x FROM a JOIN b USING (m);
--> refused: there is no column 'm' on the left side

CREATE VIEW v AS SELECT * FROM a FULL JOIN b USING (x);

SELECT x, k, m FROM v;
--> 1 | a1 | NULL
--> 2 | a2 | b2
--> 3 | NULL | b3
--> NULL | a3 | NULL
--> NULL | NULL | b4

-- Two tables of one name in two schemas.
CREATE TABLE tbl AS SELECT * FROM (VALUES (1, 10)) AS v(i, j);
CREATE SCHEMA s1;
CREATE TABLE s1.tbl AS SELECT * FROM (VALUES (2, 20), (3, 30)) AS v(i, j);
CREATE SCHEMA s2;
CREATE TABLE s2.tbl AS SELECT * FROM (VALUES (3, 300)) AS v(i, j);

SELECT tbl.i, s1.tbl.i FROM tbl, s1.tbl;
--> 1 | 2
--> 1 | 3

SELECT s1.tbl.j, s2.tbl.j FROM s1.tbl JOIN s2.tbl ON s1.tbl.i = s2.tbl.i;
--> 30 | 300

SELECT s1.tbl.i FROM s1.tbl WHERE EXISTS (SELECT 1 FROM tbl WHERE s1.tbl.i = tbl.i + 1);
--> 2

SELECT s1.tbl.* FROM tbl, s1.tbl ORDER BY s1.tbl.i DESC;
--> 3 | 30
--> 2 | 20

SELECT a.i, s1.tbl.i FROM tbl AS a, s1.tbl;
--> 1 | 2
--> 1 | 3

SELECT tbl.i FROM s1.tbl, s2.tbl;
--> refused: 'tbl' is 2 tables here

-- What stands within such a join sees its columns before they are merged.
SELECT x, a.x, l.y FROM a JOIN LATERAL (SELECT a.x + 1 AS y) AS l ON a.x < 2 FULL JOIN b USING (x);
--> 1 | 1 | 2
--> 2 | NULL | NULL
--> 3 | NULL | NULL
--> NULL | NULL | NULL

SELECT x, a.x, b.x, n FROM a JOIN b USING (x) JOIN (SELECT x AS w, n FROM c) AS c ON a.x < c.w AND b.x = 2 FULL JOIN (SELECT 3 AS x) AS d USING (x);
--> 2 | 2 | 2 | c3
--> 2 | 2 | 2 | c4
--> 3 | NULL | NULL | NULL
