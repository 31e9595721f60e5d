-- A number with a point is a decimal; one with an exponent is a DOUBLE. Beside a DOUBLE, a decimal is one.
SELECT 0.1 + 0.2 = 0.3, 10.3 * 3.0, CAST(1.005 AS DECIMAL(10, 2)), round(1.005, 2), 12345678901111111 % 2.0, 1e3, -1.5e-3;
--> true | 30.90 | 1.01 | 1.01 | 1.0 | 1000.0 | -0.0015

CREATE TABLE money(a DECIMAL(38, 10));

INSERT INTO money VALUES (12345678901234567890.12);

SELECT a FROM money WHERE a = 12345678901234567890.12;
--> 12345678901234567890.1200000000

SELECT * FROM (VALUES (1.5), (2.25), (NULL), (3));
--> 1.50
--> 2.25
--> NULL
--> 3.00

SELECT * FROM (VALUES (1.5), ('NaN'::DOUBLE), (1e300));
--> 1.5
--> NaN
--> 1e300

SELECT 1.5 UNION ALL SELECT 1e20 UNION ALL SELECT 2;
--> 1.5
--> 1e20
--> 2.0

SELECT x > 0.5, x = 0.5, x IN (0.5, 1e30), x BETWEEN 0.5 AND 1e31, coalesce(x, 0.5), CASE WHEN x > 2 THEN x ELSE 0.5 END, lag(x, 1, 0.5) OVER () FROM (VALUES (1e30), (NULL)) AS v(x);
--> true | false | true | true | 1e30 | 1e30 | 0.5
--> NULL | NULL | NULL | NULL | 0.5 | 0.5 | 1e30

SELECT 1e30 IN (SELECT 1.5) AS a, 1.5 IN (SELECT 1e30) AS b, 1.5 > ALL (SELECT 1e30) AS c;
--> false | false | false

SELECT [1.5, 1e30], array_has([1e30], 1.5), array_has([1.25], 2.5), array_append([1.5], 1e30), [1e0] || 1.5, 1.5 || [2.25], [1.5] = [1e30];
--> [1.5, 1e30] | false | false | [1.5, 1e30] | [1.0, 1.5] | [1.50, 2.25] | false

SELECT 1e309;
--> refused: too large for a DOUBLE

SELECT 12345678901234567890123456789012345678 * 10;
--> refused: more than 38 digits

SELECT a + a FROM (VALUES (99999999999999999999999999999999999999)) AS v(a);
--> refused: overflow

-- What a cast cuts off is not known of its result.
CREATE TABLE cut AS SELECT * FROM (VALUES (1.2), (1.4), (2.0)) AS v(n);

SELECT n FROM cut WHERE n::INT = 1 ORDER BY n;
--> 1.2
--> 1.4

SELECT n FROM cut WHERE n::INT > 1 OR n::DECIMAL(3, 0) = 3;
--> 2.0

SELECT n FROM (SELECT n::INT AS k, n FROM cut) WHERE k IN (1) ORDER BY n;
--> 1.2
--> 1.4

-- The rounds of a recursive query have the type of its first term.
WITH RECURSIVE t(x) AS (SELECT 1.0 UNION ALL SELECT x * 1.1 FROM t WHERE x < 1.3) SELECT x FROM t;
--> refused: cast it in the first term

WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x * 0.5 FROM t WHERE x > 0.3) SELECT x FROM t;
--> refused: cast it in the first term

WITH RECURSIVE t(x) AS (SELECT 1.0::DECIMAL(10, 3) UNION ALL SELECT x * 1.1 FROM t WHERE x < 1.3) SELECT x FROM t;
--> 1.000
--> 1.100
--> 1.210
--> 1.331

WITH RECURSIVE t(x) AS (SELECT 1e0 UNION ALL SELECT x * 0.5 FROM t WHERE x > 0.3) SELECT x FROM t;
--> 1.0
--> 0.5
--> 0.25

WITH RECURSIVE t(n, x) AS (SELECT 1, 0.5 UNION ALL SELECT n + 1, x FROM t WHERE n < 3) SELECT n, x FROM t;
--> 1 | 0.5
--> 2 | 0.5
--> 3 | 0.5

-- A text beside a decimal keeps its digits.
SELECT 1.5 = '1.51', 1.5 < '1.51', 1.5 IN ('1.51', '1.52'), 1.5 BETWEEN '1.49' AND '1.499', 1.5 = ' 1.50 ', '2' > 1.5, CASE 1.5 WHEN '1.51' THEN 1 ELSE 2 END;
--> false | true | false | false | true | true | 2

SELECT coalesce(1.5, '1.51') = 1.5, coalesce(NULL::DECIMAL(3, 1), '1.51') = 1.51, greatest(1.5, '1.51') = 1.51, nullif(1.5, '1.51') IS NULL;
--> true | true | true | false

CREATE TABLE prices AS SELECT * FROM (VALUES (1.50::DECIMAL(9, 2), '1.504'), (2.00, '2'), (3.25, '3.249')) AS v(price, written);

SELECT price FROM prices WHERE price = written;
--> 2.00

SELECT price FROM prices WHERE price > '1.504' AND price <> '3.254' ORDER BY price;
--> 2.00
--> 3.25

SELECT a.price FROM prices AS a JOIN prices AS b ON a.price = b.written;
--> 2.00

SELECT price FROM prices WHERE price IN (SELECT written FROM prices);
--> 2.00

SELECT written FROM prices WHERE written IN (SELECT price FROM prices);
--> 2

SELECT 1.5 = 'abc';
--> refused: cannot cast 'abc' to DECIMAL
