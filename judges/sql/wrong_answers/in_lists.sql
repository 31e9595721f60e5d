-- Items of IN lists that are computed for each row.
CREATE TABLE t AS SELECT * FROM (VALUES (1, true), (2, false), (3, NULL)) AS v(n, b);

SELECT n FROM t WHERE 1 IN (7, CASE WHEN b THEN 1 END);
--> 1

SELECT n, -1 NOT IN (2, CASE WHEN b THEN 4 END, 2) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL

SELECT n, 4 NOT IN (2, CASE WHEN b THEN 4 END, 2) FROM t;
--> 1 | false
--> 2 | NULL
--> 3 | NULL

SELECT n, 4 IN (2, CASE WHEN b THEN 4 ELSE 2 END) FROM t;
--> 1 | true
--> 2 | false
--> 3 | false

SELECT n FROM t WHERE n IN (CASE WHEN b THEN 1 ELSE 3 END, 7);
--> 1
--> 3

SELECT n FROM t WHERE n NOT IN (CASE WHEN b THEN 1 ELSE 3 END, 7);
--> 2

SELECT n, 'x' IN ('y', CASE WHEN b THEN 'x' END, 'z') FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL

SELECT n, 1 IN (NULL, CASE WHEN b THEN 1 END) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL

SELECT n FROM (SELECT n, CASE WHEN b THEN 1 END AS y FROM t) AS q WHERE 1 IN (7, y);
--> 1

SELECT count(*) FILTER (WHERE 1 IN (7, CASE WHEN b THEN 1 END)) FROM t;
--> 1

SELECT t.n, u.n FROM t JOIN t AS u ON t.n = u.n AND 1 IN (7, 8, 9, CASE WHEN t.b THEN 1 END);
--> 1 | 1

SELECT n, 1 IN (7, CASE WHEN b THEN 1 END, n) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL

SELECT n, 1 IN (7, coalesce(CASE WHEN b THEN 1 END, 8)) FROM t;
--> 1 | true
--> 2 | false
--> 3 | false

SELECT n, DATE '2024-01-01' IN (DATE '2024-01-02', CASE WHEN b THEN DATE '2024-01-01' END) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL

SELECT n, 1.5 IN (2.5, 3.5, CASE WHEN b THEN 1.5 END, 4.5) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL

SELECT n FROM t ORDER BY 1 IN (7, CASE WHEN b THEN 1 END) NULLS FIRST, n;
--> 2
--> 3
--> 1

SELECT n FROM t WHERE 3 IN (4, 1 + 2);
--> 1
--> 2
--> 3
