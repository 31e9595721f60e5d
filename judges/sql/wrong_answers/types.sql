-- What types have no such thing for is refused, and what a cast means does not depend on units.
SELECT -TIMESTAMP '1999-01-01';
--> refused: a time has no opposite

SELECT -INTERVAL '1 day' < INTERVAL '0 days', -1.5;
--> true | -1.5

SELECT 2.5 << 1;
--> refused: which is no integer

SELECT 7.0 & 1;
--> refused: which is no integer

SELECT 7 & 3, 2 << 1;
--> 3 | 4

SELECT length([1, 2, 3]);
--> refused: of a list

SELECT length('abc'), length(123), cardinality([1, 2, 3]);
--> 3 | 3 | 3

SELECT nth_value(i, -1) OVER () FROM (VALUES (1)) AS v(i);
--> refused: nth_value of the row

SELECT CAST([42]::INT[] AS TIMESTAMPTZ[]);
--> refused: cannot be cast

SELECT 1.5::TIMESTAMP;
--> refused: to_timestamp(x) takes seconds

SELECT '11'::TIME;
--> refused: '11' is no time of day

SELECT 11::TIME;
--> refused: cannot be cast to a time of day

SELECT '11:00'::TIME, TRY_CAST('11' AS TIME);
--> 11:00:00 | NULL

SELECT TIMESTAMP '2021-05-25 04:55:03+02';
--> refused: has a zone

SELECT '2021-05-25 04:55:03 EST'::TIMESTAMP;
--> refused: has a zone

SELECT '2021-05-25T04:55:03Z'::TIMESTAMP, '2021-05-25 04:55:03+00'::TIMESTAMP, TRY_CAST('2021-05-25 04:55:03+02' AS TIMESTAMP);
--> 2021-05-25T04:55:03 | 2021-05-25T04:55:03 | NULL

SELECT 1::TIMESTAMP, 1::TIMESTAMP(6), TIMESTAMP '1970-01-01 00:00:01.75'::BIGINT, '1969-12-31 23:59:59.5'::TIMESTAMP(6)::BIGINT, TIMESTAMP '1970-01-01 00:00:01'::BIGINT::TIMESTAMP(3);
--> 1970-01-01T00:00:01 | 1970-01-01T00:00:01 | 1 | -1 | 1970-01-01T00:00:01

-- What others write by another name.
SELECT mod(7, 3), mod(7.5, 2), sign(-2.5), 'a%b' LIKE 'a#%b' ESCAPE '#', 'axb' LIKE 'a#%b' ESCAPE '#', 'A%B' ILIKE 'a!%b' ESCAPE '!';
--> 1 | 1.5 | -1.0 | true | false | true

SELECT 'a' LIKE 'a#' ESCAPE '#';
--> refused: ends with its escape character

CREATE TEMPORARY VIEW passing AS SELECT 1 AS a;

CREATE OR REPLACE TEMP TABLE passing_too AS SELECT a + 1 AS b FROM passing;

SELECT b FROM passing_too;
--> 2

SELECT 3 * INTERVAL '1 day' = INTERVAL '3 days', INTERVAL '1 month' * 1.5 = INTERVAL '1 month 15 days', INTERVAL '1 day' / 2 = INTERVAL '12 hours', -2 * INTERVAL '1 hour' = INTERVAL '-2 hours', 0.1 * INTERVAL '10 seconds' = INTERVAL '1 second';
--> true | true | true | true | true

SELECT INTERVAL '1 day' / 0;
--> refused: divided by zero

SELECT DATE '2024-01-31' + i * INTERVAL '1 day' FROM (VALUES (0), (1), (NULL)) AS v(i) ORDER BY i;
--> 2024-01-31T00:00:00
--> 2024-02-01T00:00:00
--> NULL

SELECT age(now(), now());
--> refused: timestamp - timestamp

SELECT typeof('a');
--> VARCHAR

SELECT b, a FROM (VALUES (2, 1), (1, 2), (3, 1)) AS v(a, b) ORDER BY ALL;
--> 1 | 2
--> 1 | 3
--> 2 | 1

SELECT 1 AS n UNION ALL SELECT 2 ORDER BY ALL DESC;
--> 2
--> 1

SELECT array_sort(l, o) FROM (VALUES ([1, 3, 2], 'ASC'), ([1, 3, 2], 'DESC')) AS t(l, o);
--> refused: which is not one for all rows

SELECT array_sort([1, 3, 2], 'DESC'), array_sort([3, NULL, 1], 'ASC', 'NULLS LAST');
--> [3, 2, 1] | [1, 3, NULL]
