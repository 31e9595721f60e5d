-- Subqueries that stand for a value: without a row, in an aggregate's ORDER BY, within each other, of a column whose type is found late.
CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x', 1.0), (2, 'y', NULL), (3, NULL, 1.0)) AS v(n, c, d);
CREATE TABLE u AS SELECT * FROM (VALUES (1, 'x'), (2, 'z')) AS v(n, c);

-- Without a row it is null, though what it computes never is.
SELECT (SELECT upper('a') FROM t WHERE n > 9) IS NULL;
--> true
SELECT coalesce((SELECT upper('a') FROM t WHERE n > 9), 'z');
--> z
SELECT n FROM t WHERE (SELECT substring('xy', 1, 1) FROM t WHERE n > 9) IS NULL;
--> 1
--> 2
--> 3
SELECT (SELECT upper('a') FROM t WHERE n > 9);
--> NULL
SELECT (SELECT ('x', 1) FROM t WHERE n > 9) IS NULL;
--> true
SELECT count((SELECT abs(-1) FROM t WHERE n > 9)), count(*) FROM t;
--> 0 | 3
SELECT (SELECT v FROM (SELECT upper('a') AS v, n FROM t) AS s WHERE n > 9) IS NULL;
--> true
SELECT n, (SELECT upper('a') FROM u WHERE u.n = t.n) IS NULL FROM t;
--> 1 | false
--> 2 | false
--> 3 | true
SELECT n FROM t WHERE (SELECT upper('a') FROM u WHERE u.n > t.n LIMIT 1) IS NOT NULL;
--> 1
SELECT string_agg((SELECT substring('x', 1, 1) FROM t WHERE n > 9), '-' order by (SELECT substring('x', 1, 1) FROM t WHERE n > 9)) FROM t;
--> NULL

-- An aggregate that is ordered by one.
SELECT string_agg(c, '-' order by n * (SELECT -1)) FROM t GROUP BY d;
--> y
--> x
SELECT string_agg(c, '-' order by n * (SELECT -1)) FROM t;
--> y-x
SELECT array_agg(n order by (SELECT max(n) FROM u) * n DESC), count(*) FROM t GROUP BY d;
--> [3, 1] | 2
--> [2] | 1
SELECT array_agg(n order by (SELECT u.n FROM u WHERE u.n = t.n) DESC NULLS FIRST) FROM t;
--> [3, 2, 1]
SELECT string_agg(NULL, '-' order by (SELECT 1)) FROM t;
--> NULL

-- ANY and ALL of values with subqueries of their own.
SELECT n, (CASE WHEN n = ALL (SELECT 1) THEN 2 END) < ANY (SELECT 3) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL
SELECT n FROM t WHERE (CASE WHEN n = ALL (SELECT 1) THEN 2 END) < ANY (SELECT 3);
--> 1
SELECT n, (CASE WHEN n IN (SELECT u.n FROM u WHERE u.c = t.c) THEN 2 END) < ANY (SELECT 3) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL
SELECT n, (CASE WHEN n < ANY (SELECT u.n FROM u WHERE u.c > t.c) THEN n END) > ALL (SELECT u.n - 1 FROM u WHERE u.n <= t.n) FROM t;
--> 1 | true
--> 2 | NULL
--> 3 | NULL
SELECT n FROM t WHERE (n > ALL (SELECT 1)) = ANY (SELECT true);
--> 2
--> 3

-- A UNION has its types late.
SELECT q.v, (SELECT count(*) FROM u WHERE q.v LIKE 'X%' AND u.n > 1) FROM (SELECT 'Xa' AS v UNION SELECT upper(c) FROM t) AS q;
--> NULL | 0
--> X | 1
--> Xa | 1
--> Y | 0
SELECT q.v, (SELECT max(q.v + u.n) FROM u) FROM (SELECT 1 AS v UNION SELECT 1.5) AS q;
--> 1.0 | 3.0
--> 1.5 | 3.5
SELECT q.v, s.m FROM (SELECT 1 AS v UNION SELECT 2.5) AS q JOIN LATERAL (SELECT max(u.n) AS m FROM u WHERE u.n < q.v) AS s ON TRUE;
--> 1.0 | NULL
--> 2.5 | 2

-- One of both sides of an outer join.
SELECT t.n FROM t FULL JOIN u ON u.n IN (SELECT 1 WHERE t.n = u.n) GROUP BY t.n;
--> refused: in the ON of an outer join

-- A join of which a JOIN LATERAL alone uses columns.
SELECT DISTINCT a.n FROM t AS a LEFT JOIN u AS b ON b.n = a.n JOIN LATERAL (SELECT 1 FROM u WHERE u.n > b.n) AS s ON TRUE;
--> 1
SELECT DISTINCT a.n FROM t AS a LEFT JOIN (SELECT 2 AS v) AS b ON TRUE JOIN LATERAL (SELECT 1 FROM u WHERE u.n < b.v + a.n) AS s ON TRUE;
--> 1
--> 2
--> 3
SELECT DISTINCT a.n FROM t AS a LEFT JOIN (SELECT NULL AS v) AS b ON TRUE JOIN LATERAL (SELECT 1 FROM u WHERE u.n >= b.v) AS s ON TRUE;
--> no rows

-- The grand total of no rows is a row, whatever its value needs of it.
CREATE TABLE totals_l AS SELECT * FROM (VALUES (1), (2)) AS v(a);

CREATE TABLE totals_r AS SELECT * FROM (VALUES (2)) AS v(c);

SELECT a, (SELECT count(*) IS NULL FROM totals_r WHERE c = a) AS x FROM totals_l ORDER BY a;
--> 1 | false
--> 2 | false

SELECT a FROM totals_l WHERE (SELECT count(*) IS NOT NULL FROM totals_r WHERE c = a) ORDER BY a;
--> 1
--> 2

SELECT a, (SELECT 5 FROM totals_r WHERE c = a HAVING count(*) = 0) AS x, (SELECT 5 FROM totals_r WHERE c = a HAVING count(*) >= 0) AS y, (SELECT max(c) FROM totals_r WHERE c = a HAVING count(*) > 0) AS z FROM totals_l ORDER BY a;
--> 1 | 5 | 5 | NULL
--> 2 | NULL | 5 | 2

SELECT a, (SELECT count(*) * 0 FROM totals_r WHERE c = a) AS x, (SELECT coalesce(max(c), 0) IS NOT NULL FROM totals_r WHERE c = a) AS y FROM totals_l ORDER BY a;
--> 1 | 0 | true
--> 2 | 0 | true

-- A null is not equal to itself, in a subquery's condition on an outer column as elsewhere.
CREATE TABLE own AS SELECT * FROM (VALUES (1, 10), (2, CAST(NULL AS INT))) AS v(b, d);

SELECT b FROM own WHERE EXISTS (SELECT 1 FROM totals_r WHERE own.d IN (own.d));
--> 1

SELECT b FROM own WHERE NOT EXISTS (SELECT 1 FROM totals_r WHERE own.d IN (own.d) AND c > 0);
--> 2

SELECT b FROM own WHERE EXISTS (SELECT 1 FROM totals_r WHERE own.d = own.d);
--> 1

SELECT b FROM own WHERE EXISTS (SELECT 1 FROM totals_r WHERE own.d = ANY(ARRAY[own.d]));
--> 1

SELECT b FROM own WHERE EXISTS (SELECT 1 FROM totals_r WHERE own.d + 1 IN (own.d + 1));
--> 1

SELECT b FROM own WHERE d IN (SELECT 10 FROM totals_r WHERE own.d IN (own.d)) OR b IN (SELECT 2 FROM totals_r WHERE own.d IN (own.d));
--> 1

SELECT b, (SELECT max(c) FROM totals_r WHERE own.d IN (own.d)) AS x, (SELECT count(*) FROM totals_r WHERE own.d IN (own.d)) AS y FROM own ORDER BY b;
--> 1 | 2 | 1
--> 2 | NULL | 0

SELECT b, q.c FROM own LEFT JOIN LATERAL (SELECT c FROM totals_r WHERE own.d IN (own.d)) AS q ON TRUE ORDER BY b;
--> 1 | 2
--> 2 | NULL

SELECT b, q.c FROM own CROSS JOIN LATERAL (SELECT c FROM totals_r WHERE own.d IN (own.d)) AS q;
--> 1 | 2
