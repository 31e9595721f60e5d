-- Null is neither true nor false: a condition that a null leaves open is null.
CREATE TABLE r AS SELECT * FROM (VALUES (NULL::TEXT, NULL::DOUBLE, [1, 2, NULL]), ('a', 2, [1, 2])) AS v(r, d, l);

SELECT r IN ('a') AND r IN ('b'), r NOT IN ('a') OR r NOT IN ('b'), r = 'a' AND r = 'b', r <> 'a' OR r <> 'b', r IN ('a', 'b') AND r NOT IN ('a', 'b'), (r = 'a' OR r = 'b') AND (r = 'c' OR r = 'd') FROM r ORDER BY r;
--> false | true | false | true | false | false
--> NULL | NULL | NULL | NULL | NULL | NULL

SELECT r FROM r WHERE NOT (r IN ('a') AND r IN ('b'));
--> a

SELECT r FROM r WHERE NOT (r NOT IN ('a') OR r NOT IN ('b'));
--> no rows

SELECT r FROM r WHERE r IN ('a', 'b') AND r IN ('a', 'c');
--> a

SELECT regexp_like(r, '.*'), NOT regexp_like(r, '.*'), regexp_like(r, '.*', 'i') FROM r ORDER BY r;
--> true | false | true
--> NULL | NULL | NULL

SELECT count(*) FROM r WHERE regexp_like(r, '.*');
--> 1

SELECT r FROM r WHERE NOT regexp_like(r, '.*');
--> no rows

SELECT power(d, 0.0), power(d, 0), log(d, 1.0), log(d, d) FROM r ORDER BY d;
--> 1.0 | 1.0 | 0.0 | 1.0
--> NULL | NULL | NULL | NULL

SELECT 4 = ANY(ARRAY[1, 2, 3, NULL]), 1 = ANY(ARRAY[1, NULL]), 4 <> ALL(ARRAY[1, NULL]), 4 = ANY(l), 1 = ANY(l), 2 > ANY(l), 0 > ANY(l), 4 <> ALL(l), NULL = ANY(l) FROM r ORDER BY r;
--> NULL | true | NULL | false | true | true | false | true | NULL
--> NULL | true | NULL | NULL | true | true | NULL | NULL | NULL

SELECT NULL::INT = ANY(array_remove([1], 1)), 1 <> ALL(array_remove([1], 1));
--> false | true

SELECT array_has([d::INT, 1], 2), array_has([1, 2, NULL], 4) FROM r ORDER BY d;
--> true | false
--> false | false

-- One NaN, greater than all numbers.
SELECT -'NaN'::DOUBLE > 0, count(DISTINCT x), min(x), max(x) FROM (VALUES ('NaN'::DOUBLE, 0e0), (-'NaN'::DOUBLE, 0e0), (1e0, 0e0)) AS v(x, z);
--> true | 2 | 1.0 | NaN

SELECT z / z > 1, i - i > 1, i * z > 1, sin(i) > 1 FROM (VALUES (0e0, 'inf'::DOUBLE)) AS v(z, i);
--> true | true | true | true
