-- Clauses that were read and then ignored.

SELECT 1 AS a, NULL AS b;
--> 1 | NULL

SELECT * FROM (VALUES (2, 'b'), (1, 'a')) AS v(n, t) ORDER BY n;
--> 1 | a
--> 2 | b
