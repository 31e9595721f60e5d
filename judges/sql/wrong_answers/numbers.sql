-- Integers that are written with more than 64 bits were doubles.
SELECT 17014118346046923173168730371588410572 % 10;
--> 2

SELECT 18446744073709551616, 18446744073709551616 - 1, -18446744073709551616;
--> 18446744073709551616 | 18446744073709551615 | -18446744073709551616

SELECT -9223372036854775809, -9223372036854775808;
--> -9223372036854775809 | -9223372036854775808

SELECT 99999999999999999999999999999999999999 = 99999999999999999999999999999999999998;
--> false

SELECT 170141183460469231731687303715884105727 % 10;
--> refused: 39 digits

-- Quotients of decimals were cut off, four digits behind the dividend's last.
SELECT 20::decimal(10, 2) / 3, -20::decimal(10, 2) / 3, 20::decimal(10, 2) / -3;
--> 6.666667 | -6.666667 | -6.666667

SELECT 1::decimal(1, 0) / 3::decimal(1, 0), 2 / 3::decimal(1, 0), 1::decimal(10, 2) / 8;
--> 0.333333 | 0.666667 | 0.125000

CREATE TABLE quotients AS SELECT * FROM (VALUES (1, 1.25::decimal(10, 2), 3::decimal(10, 2)), (2, -7.5::decimal(10, 2), 2::decimal(10, 2)), (3, NULL, 1::decimal(10, 2))) AS v(n, a, b);

SELECT n, a / b, b / n FROM quotients ORDER BY n;
--> 1 | 0.4166666666667 | 3.00000000000000000000000
--> 2 | -3.7500000000000 | 1.00000000000000000000000
--> 3 | NULL | 0.33333333333333333333333

SELECT a / (b - b) FROM quotients WHERE n = 1;
--> refused: divide by zero

SELECT sum(a) / sum(b), a / b FROM quotients WHERE n = 1 GROUP BY a / b HAVING a / b > 0.4;
--> 0.416666666666666667 | 0.4166666666667

-- Numerators longer than 38 digits in between.
SELECT '12345678901234567890123456789.123456789'::decimal(38, 9) / '1.000000001'::decimal(38, 9);
--> 12345678888888889001234567787.888889

SELECT 99999999999999999999999999999999999999 / 0.1::decimal(10, 1);
--> refused: decimal overflow

-- Products that have no room for all digits behind the point.
SELECT '1234567.0000000000001'::decimal(38, 13) * '7654321.5'::decimal(38, 13);
--> 9449772731290.500001

-- Averages of decimals were cut off.
SELECT avg(a::decimal(10, 2)) FROM (VALUES (2.00), (2.00), (1.00)) AS v(a);
--> 1.666667

SELECT g, avg(a::decimal(10, 2)), avg(DISTINCT a::decimal(10, 2)) FROM (VALUES (1, 2.00), (1, 2.00), (1, 1.00), (2, NULL), (3, -2.00), (3, -2.00), (3, -1.00)) AS v(g, a) GROUP BY g ORDER BY g;
--> 1 | 1.666667 | 1.500000
--> 2 | NULL | NULL
--> 3 | -1.666667 | -1.500000

SELECT n, avg(a::decimal(10, 2)) OVER (ORDER BY n ROWS 1 PRECEDING) FROM (VALUES (1, 1.00), (2, NULL), (3, 2.00), (4, 3.01)) AS v(n, a) ORDER BY n;
--> 1 | 1.000000
--> 2 | 1.000000
--> 3 | 2.000000
--> 4 | 2.505000

SELECT avg(a) FROM (VALUES (1::decimal(5, 0)), (2::decimal(5, 0)), (2::decimal(5, 0))) AS v(a);
--> 1.666667

SELECT avg(a) FROM (VALUES (99999999999999999999999999999999999999::decimal(38, 0)), (99999999999999999999999999999999999998::decimal(38, 0))) AS v(a);
--> refused: decimal overflow

-- Integers wrapped around.
SELECT 9223372036854775807 + 1;
--> refused: integer overflow

SELECT -9223372036854775807 - 2;
--> refused: integer overflow

SELECT 4611686018427387904 * 2;
--> refused: integer overflow

SELECT 2147483647::int + 1::int;
--> refused: integer overflow

CREATE TABLE integers AS SELECT * FROM (VALUES (1, 9223372036854775807), (2, -9223372036854775808), (3, 5)) AS v(n, i);

SELECT i + 1 FROM integers;
--> refused: integer overflow

SELECT n FROM integers WHERE i * 2 > 0;
--> refused: integer overflow

SELECT -i FROM integers;
--> refused: integer overflow

SELECT abs(i) FROM integers;
--> refused: overflow

SELECT i + 1, -i, i * 2, i - 1 FROM integers WHERE n = 3;
--> 6 | -5 | 10 | 4

SELECT n, CASE WHEN n = 3 THEN i * 2 END FROM integers ORDER BY n;
--> 1 | NULL
--> 2 | NULL
--> 3 | 10

SELECT a.n FROM integers AS a JOIN integers AS b ON a.i + 1 = b.i;
--> refused: integer overflow

SELECT sum(i) FROM (VALUES (9223372036854775807), (1)) AS v(i);
--> refused: integer overflow

SELECT g, sum(i) FROM (VALUES (1, 9223372036854775807), (1, 1), (2, 3)) AS v(g, i) GROUP BY g;
--> refused: integer overflow

SELECT g, sum(i) FROM (VALUES (1, 9223372036854775807), (1, 1), (1, -2), (2, 3), (3, NULL)) AS v(g, i) GROUP BY g ORDER BY g;
--> 1 | 9223372036854775806
--> 2 | 3
--> 3 | NULL

SELECT sum(i), sum(DISTINCT i), sum(i) FILTER (WHERE i < 0) FROM (VALUES (9223372036854775807), (1), (-2), (-2)) AS v(i);
--> 9223372036854775804 | 9223372036854775806 | -4

SELECT sum(DISTINCT i) FROM (VALUES (9223372036854775807), (1)) AS v(i);
--> refused: integer overflow

SELECT n, sum(i) OVER (ORDER BY n) FROM (VALUES (1, 9223372036854775807), (2, -1), (3, 1)) AS v(n, i) ORDER BY n;
--> 1 | 9223372036854775807
--> 2 | 9223372036854775806
--> 3 | 9223372036854775807

SELECT n, sum(i) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (VALUES (1, 9223372036854775807), (2, 1), (3, 1)) AS v(n, i) ORDER BY n;
--> refused: integer overflow

SELECT sum(i), sum(i::bigint unsigned) FROM (VALUES (18446744073709551615), (0)) AS v(i);
--> 18446744073709551615 | 18446744073709551615

SELECT sum(i::bigint unsigned) FROM (VALUES (18446744073709551615), (1)) AS v(i);
--> refused: integer overflow

SELECT sum(a) FROM (VALUES (99999999999999999999999999999999999999::decimal(38, 0)), (1::decimal(38, 0))) AS v(a);
--> refused: decimal overflow

-- Unless that is asked for.
SET yeoul.wrap_integers = true;

SELECT i + 1, -i, i - 1, i * 2 FROM integers ORDER BY n;
--> -9223372036854775808 | -9223372036854775807 | 9223372036854775806 | -2
--> -9223372036854775807 | -9223372036854775808 | 9223372036854775807 | 0
--> 6 | -5 | 4 | 10

SELECT sum(i) FROM (VALUES (9223372036854775807), (1)) AS v(i);
--> -9223372036854775808

SET yeoul.wrap_integers = false;

SELECT 9223372036854775807 + 1;
--> refused: integer overflow

-- Percentiles had six digits of their fraction, medians of decimals no digit more than they.
SELECT percentile_cont(0.123456789) WITHIN GROUP (ORDER BY x) FROM (VALUES (0.0), (1000000000.0)) AS v(x);
--> 123456789.0

SELECT g, percentile_cont(0.25) WITHIN GROUP (ORDER BY x), percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC), median(x) FROM (VALUES (1, 1), (1, 2), (2, 7), (3, NULL)) AS v(g, x) GROUP BY g ORDER BY g;
--> 1 | 1.25 | 1.75 | 1.5
--> 2 | 7.0 | 7.0 | 7.0
--> 3 | NULL | NULL | NULL

SELECT median(x::decimal(10, 2)), median(DISTINCT x::decimal(10, 2)) FROM (VALUES (0.01), (0.02), (0.02), (0.01)) AS v(x);
--> 0.015 | 0.015

-- A digit that no float has.
SELECT round(42.1235::DOUBLE, 400), round(42::DOUBLE, -400), trunc(42.1235::DOUBLE, 400), trunc(42::DOUBLE, -400), round(42.126::DOUBLE, 2);
--> 42.1235 | 0.0 | 42.1235 | 0.0 | 42.13

SELECT round(x, d) FROM (VALUES (1.5::DOUBLE, 400), (1.5::DOUBLE, -400), ('inf'::DOUBLE, 2)) AS t(x, d);
--> 1.5
--> 0.0
--> inf

-- A line through all points; none through one x.
SELECT regr_r2(y, x), regr_r2(x, y) FROM (VALUES (1.0, 1.0), (1.0, 2.0), (1.0, 3.0)) AS t(y, x);
--> 1.0 | NULL

SELECT g, regr_r2(y, x) FROM (VALUES (1, 1.0, 1.0), (1, 1.0, 2.0), (2, 1.0, 1.0)) AS t(g, y, x) GROUP BY g ORDER BY g;
--> 1 | 1.0
--> 2 | NULL

-- NaN is the greatest by groups, too, in whichever order it comes.
SELECT g, min(h), max(h), max(h) FILTER (WHERE h <> 7) FROM (VALUES (1, 'NaN'::DOUBLE), (1, -2e0), (2, -2e0), (2, 'NaN'::DOUBLE), (3, 'NaN'::DOUBLE), (4, NULL)) AS t(g, h)
GROUP BY g ORDER BY g;
--> 1 | -2.0 | NaN | NaN
--> 2 | -2.0 | NaN | NaN
--> 3 | NaN | NaN | NaN
--> 4 | NULL | NULL | NULL

SELECT max(h::FLOAT), min(h::FLOAT) FROM (VALUES (1, 'NaN'::DOUBLE), (1, -2e0)) AS t(g, h) GROUP BY g;
--> NaN | -2.0

-- With a sign it is no other value, wherever it comes from.
COPY (VALUES ('-NaN'), ('1.5'), ('NaN')) TO '~/texts.csv';

CREATE TABLE signed AS SELECT column1::DOUBLE AS h FROM '~/texts.csv';

SELECT max(h), count(DISTINCT h), count(*) FILTER (WHERE h > 1.5) FROM signed;
--> NaN | 2 | 2

SELECT a.h FROM signed a JOIN (SELECT 'NaN'::DOUBLE AS h) b ON a.h = b.h;
--> NaN
--> NaN

SELECT '-NaN'::DOUBLE = 'NaN'::DOUBLE, TRY_CAST('-nan' AS FLOAT) > 1, 'inf'::DOUBLE < 'NaN'::DOUBLE;
--> true | true | true

-- Both zeros are one value: of equal keys, the next one decides.
CREATE TABLE zeros AS SELECT * FROM (VALUES (CAST('-0.0' AS DOUBLE), 2), (CAST('0.0' AS DOUBLE), 1), (CAST('-0.0' AS DOUBLE), 0)) AS v(x, k);

SELECT k FROM zeros ORDER BY x, k;
--> 0
--> 1
--> 2

SELECT k, rank() OVER (ORDER BY x) AS r, row_number() OVER (PARTITION BY x ORDER BY k) AS n, sum(k) OVER (ORDER BY x) AS s FROM zeros ORDER BY k;
--> 0 | 1 | 1 | 3
--> 1 | 1 | 2 | 3
--> 2 | 1 | 3 | 3

SELECT string_agg(k::VARCHAR, '' ORDER BY x, k DESC) AS s FROM zeros;
--> 210

SELECT DISTINCT ON (x) k FROM zeros ORDER BY x, k DESC;
--> 2
