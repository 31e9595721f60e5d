-- Casts, texts, and what other systems disagree about.

SELECT '[1,2]'::varchar[];
--> refused: cannot be cast to a list

SELECT x::int[] FROM (VALUES ('1'), (NULL)) v(x);
--> refused: cannot be cast to a list

SELECT 1::int[];
--> refused: cannot be cast to a list

SELECT try_cast('[1]' AS int[]);
--> refused: cannot be cast to a list

SELECT ['1', '2']::int[], NULL::int[], [1, 2]::varchar[];
--> [1, 2] | NULL | [1, 2]

SELECT string_to_array('1,2', ',')::int[];
--> [1, 2]

SELECT l[0] FROM (SELECT [1, 2, 3] AS l);
--> refused: numbered from 1

SELECT l[1], l[3], l[-1], l[4] FROM (SELECT [1, 2, 3] AS l);
--> 1 | 3 | 3 | NULL

SELECT l[i] FROM (SELECT [1, 2, 3] AS l, 0 AS i);
--> NULL

SELECT substr('hello', -3, 2), substring('hello' FROM -3 FOR 2) AS same, substr('hello', -3), substring('hello', -10, 7), substr('hello', 0, 2), substr('hello', 2, 3);
--> ll | ll | llo | he | h | ell

SELECT substr(x, n), substr(x, n, 1) FROM (VALUES ('hello', -2), ('여울물', -2), (NULL, -2), ('hello', 3)) v(x, n);
--> lo | l
--> 울물 | 울
--> NULL | NULL
--> llo | l

SELECT substr('hello', 2, -1);
--> refused: negative

SELECT 2 ^ 3 ^ 2;
--> refused: power(2, 3)

SELECT power(2, 3), (5 | 3) - (5 & 3);
--> 8.0 | 6

CREATE TABLE gaps AS SELECT column1 AS n FROM (VALUES (2), (NULL), (1));

SELECT n FROM gaps ORDER BY n;
--> 1
--> 2
--> NULL

SELECT n FROM gaps ORDER BY n DESC;
--> 2
--> 1
--> NULL

SELECT n FROM gaps ORDER BY n DESC LIMIT 1;
--> 2

SELECT n FROM gaps ORDER BY n DESC NULLS FIRST;
--> NULL
--> 2
--> 1

SELECT n, row_number() OVER (ORDER BY n DESC) FROM gaps;
--> 2 | 1
--> 1 | 2
--> NULL | 3

SELECT string_agg(coalesce(n::varchar, '-'), ',' ORDER BY n DESC), first_value(n ORDER BY n DESC) FROM gaps;
--> 2,1,- | 2

-- Times as texts.
SELECT (TIMESTAMP '2024-01-05 10:00:00')::varchar, (TIMESTAMP '2024-01-05 10:00:00.500')::varchar, (TIMESTAMP '2024-01-05 10:00:00.123456')::varchar;
--> 2024-01-05 10:00:00 | 2024-01-05 10:00:00.5 | 2024-01-05 10:00:00.123456

SELECT (TIMESTAMPTZ '2024-01-05 10:00:00+00')::varchar, 'at ' || TIMESTAMP '2024-01-05 10:00:00', concat(TIMESTAMP '2024-01-05 10:00:00', '!');
--> 2024-01-05 10:00:00+00 | at 2024-01-05 10:00:00 | 2024-01-05 10:00:00!

SELECT (TIME '10:00:00.5')::varchar, (DATE '2024-01-05')::varchar, [TIMESTAMP '2024-01-05 10:00:00.5']::varchar;
--> 10:00:00.5 | 2024-01-05 | [2024-01-05 10:00:00.5]

SELECT x::varchar, length(x::varchar) FROM (VALUES (TIMESTAMP '1969-12-31 23:59:59.5'), (NULL)) v(x);
--> 1969-12-31 23:59:59.5 | 21
--> NULL | NULL

SELECT x = '2024-01-05 10:00' FROM (VALUES (TIMESTAMP '2024-01-05 10:00:00')) v(x);
--> true

SELECT count(*) FROM (VALUES (TIMESTAMP '2024-01-05 10:00:00'), (TIMESTAMP '2024-01-05 11:00:00')) v(x) GROUP BY x::varchar HAVING x::varchar < '2024-01-05 11';
--> 1

-- Patterns.
SELECT date_format(TIMESTAMP '2024-03-05 00:07:09.123456', 'yyyy-MM-dd HH:mm:ss.SSS'), date_format(DATE '2024-03-05', 'yyyy-MM'), date_format('2024-03-05 10:00', 'EEE, d MMM yy h a');
--> 2024-03-05 00:07:09.123 | 2024-03 | Tue, 5 Mar 24 10 AM

SELECT date_format(t, p) FROM (VALUES (TIMESTAMP '2024-03-05 00:07:09', 'yyyy'), (TIMESTAMP '2024-03-05 00:07:09', 'MM/dd'), (NULL, 'MM')) v(t, p);
--> 2024
--> 03/05
--> NULL

SELECT date_format(TIMESTAMP '2024-03-05 00:07:09', '%Y-%m');
--> refused: '%'

SELECT date_format(TIMESTAMP '2024-03-05 00:07:09', 'YYYY');
--> refused: 'YYYY'

SELECT to_char(TIMESTAMP '2024-03-05 00:07:09', 'YYYY-MM');
--> refused: no field

SELECT to_char(TIMESTAMP '2024-03-05 00:07:09', '%Y-%m');
--> 2024-03

-- SIMILAR TO searched for a regular expression.
SELECT 'abc' SIMILAR TO 'b', 'abc' SIMILAR TO '%b%', 'axc' SIMILAR TO 'a.c', 'abc' NOT SIMILAR TO 'abc', 'abc' SIMILAR TO '(x|a)_[a-c]';
--> false | true | false | false | true

SELECT v FROM (VALUES ('50%'), ('500'), (NULL)) AS t(v) WHERE v SIMILAR TO '50#%' ESCAPE '#';
--> 50%

SELECT 'a' SIMILAR TO v FROM (VALUES ('a')) AS t(v);
--> refused: SIMILAR TO with a pattern that is no text

-- Calls that systems read in two ways.
SELECT position('b', 'abc');
--> refused: position

SELECT position('b' IN 'abc');
--> 2

SELECT concat([1, 2, 3], [4]);
--> refused: which is a list

SELECT CAST(TIME '00:01:52' AS BIGINT);
--> refused: time of day

SELECT * FROM (VALUES (3, 4)) AS v(x, y) |> AGGREGATE sum(y) AS s GROUP BY 2;
--> refused: |> AGGREGATE

SELECT * FROM (VALUES (3, 4)) AS v(x, y) |> AGGREGATE sum(y) AS s GROUP BY x |> SELECT x, s;
--> 3 | 4

-- A length below zero is one of no letters, also where it is not a constant.
SELECT '[' || lpad(s, n) || ']' AS l, '[' || rpad(s, n, 'xy') || ']' AS r FROM (VALUES ('ab', -1), ('ab', 1), ('ab', 4), ('ab', NULL)) AS t(s, n) ORDER BY n NULLS LAST;
--> [] | []
--> [a] | [a]
--> [  ab] | [abxy]
--> NULL | NULL

SELECT rpad('', -1, NULL) IS NULL AS r;
--> true
