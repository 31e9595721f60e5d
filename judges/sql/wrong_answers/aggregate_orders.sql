-- Each aggregate has an order of its own.
CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 'z'), (1, 'b', 'y'), (1, NULL, 'x'), (2, 'c', 'x'), (3, NULL, 'x')) AS v(g, a, b);

SELECT g, string_agg(a, '-' ORDER BY a) AS p, string_agg(b, '-' ORDER BY b) AS q, string_agg(a, '+' ORDER BY b) AS r, string_agg(DISTINCT a, '-' ORDER BY a DESC) AS s, first_value(a ORDER BY b DESC) AS f, string_agg(b, '' ORDER BY a NULLS LAST) FILTER (WHERE b > 'x') AS w FROM t GROUP BY g ORDER BY g;
--> 1 | a-b | x-y-z | b+a | b-a | a | zy
--> 2 | c | x | c | c | c | NULL
--> 3 | NULL | x | NULL | NULL | NULL | NULL

SELECT string_agg(a, '-' ORDER BY a DESC) AS p, string_agg(a, '-' ORDER BY b, a) AS q, string_agg(b, '-' ORDER BY g, b) AS r FROM t;
--> c-b-a | c-b-a | x-y-z-x-x

SELECT DISTINCT g, string_agg(a, '-' ORDER BY a DESC) OVER (PARTITION BY g) AS p FROM t ORDER BY g;
--> refused: ORDER BY
