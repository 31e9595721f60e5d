-- Functions and clauses that Spark and DuckDB have, with their answers; where these differ, a refusal that says so.
CREATE TABLE n AS SELECT * FROM (VALUES (1, 'a|b', 1.5e0, 1.25, true), (2, NULL, 1.005e0, 2.00, NULL), (NULL, '', NULL, NULL, false)) AS v(i, s, f, d, b);
CREATE TABLE w AS SELECT * FROM (VALUES ('x', 3), ('x', 2), ('x', 2), ('x', 1), ('x', NULL), ('y', NULL)) AS v(k, x);

-- Texts of times.
SELECT strftime(TIMESTAMP '1992-03-02 20:32:45.123456', '%a %d %B %Y %I:%M:%S %p %f %j %%'), strftime('%Y', DATE '2020-01-01'), strftime(NULL::DATE, '%Y'), strftime(DATE '2020-01-01', NULL);
--> Mon 02 March 1992 08:32:45 PM 123456 062 % | 2020 | NULL | NULL

SELECT strftime(TIMESTAMPTZ '1992-03-02 20:32:45+00', '%H %z');
--> 20 +00

SELECT strftime(DATE '2020-01-01', '%Q');
--> refused: no field '%Q'

SELECT strftime('2020-01-01', '%Y');
--> refused: cast a text to TIMESTAMP first

-- Times of texts.
SELECT strptime('2 mar 68', '%d %b %y'), strptime('12.5', '%S.%f'), strptime(NULL, '%Y'), strptime('1992', NULL), try_strptime('x', '%Y'), strptime('1992', ['%d', '%Y']);
--> 2068-03-02T00:00:00 | 1900-01-01T00:00:12.500 | NULL | NULL | NULL | 1992-01-01T00:00:00

SELECT strptime('02/Mar/1992:10:00:00 +0130', '%d/%b/%Y:%H:%M:%S %z'), typeof(strptime('+02', '%z'));
--> 1992-03-02T08:30:00Z | TIMESTAMP WITH TIME ZONE

SELECT strptime(s, p) FROM (VALUES ('1992', '%Y'), ('92', '%y'), (NULL, '%Y')) AS v(s, p) ORDER BY p DESC, s;
--> 1992-01-01T00:00:00
--> 1992-01-01T00:00:00
--> NULL

SELECT strptime('1992-02-30', '%Y-%m-%d');
--> refused: is no time of the pattern

SELECT try_strptime('x', '%Q');
--> refused: no field '%Q'

SELECT strptime('1992 10', '%Y %U');
--> refused: strptime with %U

SELECT strptime(s, p) FROM (VALUES ('+02', '%z')) AS v(s, p);
--> refused: no constant

-- Texts of values.
SELECT printf('%s: %5d|%-5d|%05d|%x', 'a', 42, 42, -42, 255), printf('%.2f %e', 3.14159e0, 12345.678e0), printf(NULL, 1), printf('100%%'), printf('%,d', 1234567);
--> a:    42|42   |-0042|ff | 3.14 1.234568e+04 | NULL | 100% | 1,234,567

SELECT printf('%d %s', i, s) FROM n WHERE i = 1;
--> 1 a|b

SELECT printf('%s', s) FROM n;
--> refused: null in DuckDB and the text 'null' in Spark

SELECT printf('%.2f', f) FROM n WHERE i = 2;
--> refused: '1.00' in DuckDB and '1.01' in Spark

SELECT format_string('%.2f|%d|%s|%b', f, i, s, b) FROM n ORDER BY i;
--> 1.50|1|a|b|true
--> 1.01|2|null|false
--> nu|null||false

SELECT format_string('%d', 1.5e0);
--> refused: a DOUBLE cannot be written by %d

SELECT format_string('%s', DATE '2020-01-01');
--> refused: cast it to TEXT

SELECT printf('%d');
--> refused: there is no value 1

SELECT format('{} {1}', 1, 2);
--> refused: some none

SELECT format('{1} {0:>4} {2:.1f} {3}', 1, 'a', 2.25e0, 1.50), format('{}', NULL), format('{:,} {{}} {:05.2f}', 1234567, 3.14159e0), format('{}% {}', 5, true);
--> a    1 2.2 1.5 | NULL | 1,234,567 {} 03.14 | 5% true

SELECT format('%s', 'a');
--> refused: a field in PostgreSQL and none in DuckDB

-- Parts of texts.
SELECT split('a,,b,', ','), split('', ','), split('abc', ''), split(NULL, ','), split('oneAtwoBthreeC', '[ABC]', 2), split('aAbB', '[AB]', -1);
--> [a, , b, ] | [] | [a, b, c] | NULL | [one, twoBthreeC] | [a, b, ]

SELECT split(s, '|') FROM n;
--> refused: a regular expression in Spark and a text in DuckDB

SELECT split('a', NULL);
--> refused: the answer is null in Spark

SELECT string_split(s, '|'), string_split_regex(s, '[|]'), string_split(s, NULL) FROM n ORDER BY i;
--> [a, b] | [a, b] | [a|b]
--> NULL | NULL | NULL
--> [] | [] | []

SELECT str_split_regex('a1b22c', '[0-9]+'), regexp_split_to_array('a b', '\s'), string_split_regex('a', NULL), string_split('', '');
--> [a, b, c] | [a, b] | [a] | []

SELECT string_split_regex('abc', 'b*');
--> refused: matches an empty text

-- Times.
SELECT months_between('1997-02-28 10:30:00', '1996-10-30'), months_between(DATE '2024-02-29', DATE '2024-01-31'), months_between(DATE '2024-01-31', DATE '2024-03-31'), months_between(NULL, DATE '2024-03-31'), months_between(TIMESTAMP '1997-02-28 10:30:00', TIMESTAMP '1996-10-30 00:00:00', false);
--> 3.94959677 | 1.0 | -2.0 | NULL | 3.9495967741935485

SELECT next_day('2015-01-14', 'TU'), next_day(DATE '2015-01-14', 'wednesday'), next_day(NULL, 'Mo'), next_day(DATE '2015-01-14', NULL);
--> 2015-01-20 | 2015-01-21 | NULL | NULL

SELECT next_day(DATE '2015-01-14', 'xx');
--> refused: 'xx' is no day of the week

SELECT make_timestamp(2020, 1, 31, 10, 20, 30.5), make_timestamp(2020, 2, 3, 2, 20, 60), make_timestamp(2020, 2, 3, 2, 20, 59.9999999e0), make_timestamp(NULL, 2, 3, 2, 20, 1), make_timestamp(1700000000000000);
--> 2020-01-31T10:20:30.500 | 2020-02-03T02:21:00 | 2020-02-03T02:21:00 | NULL | 2023-11-14T22:13:20

SELECT make_timestamp(2020, 2, 30, 0, 0, 0);
--> refused: is no time

SELECT make_timestamp(2020, 2, 3, 24, 0, 0);
--> refused: is no time

SELECT unix_timestamp('1970-01-02'), unix_timestamp(DATE '1969-12-31'), unix_timestamp(NULL), to_unix_timestamp(TIMESTAMP '9999-12-31 23:59:59.999999');
--> 86400 | -86400 | NULL | 253402300799

-- Aggregates.
SELECT k, mode(x), histogram(x), entropy(x), product(x) FROM w GROUP BY k ORDER BY k;
--> x | 2 | {1: 1, 2: 2, 3: 1} | 1.5 | 12.0
--> y | NULL | NULL | 0.0 | NULL

SELECT mode(f), mode(g) FROM (VALUES (CAST('NaN' AS DOUBLE), 0.0e0), (-CAST('NaN' AS DOUBLE), -0.0e0), (1.0e0, 1.0e0)) AS v(f, g);
--> NaN | 0.0

SELECT mode(x), histogram(x) FROM w WHERE false;
--> NULL | NULL

SELECT mode(k), histogram(k), entropy(k), mode(x > 1) FROM w;
--> x | {x: 5, y: 1} | 0.6500224216483541 | true

SELECT x, mode(k) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w WHERE x < 3 ORDER BY x;
--> 1 | x
--> 2 | x
--> 2 | x

SELECT mode(DISTINCT x), mode(x) FROM w;
--> refused: DISTINCT

SELECT mode([x]) FROM w;
--> refused: mode

SELECT round(kurtosis_samp(x), 12), round(kurtosis_pop(x), 12), round(skewness_samp(x), 12), round(skewness_pop(x), 12) FROM (VALUES (1), (2), (5), (9), (NULL)) AS v(x);
--> -0.581893860562 | -1.277585848075 | 0.888583561553 | 0.51302395846

SELECT kurtosis_pop(x), kurtosis_samp(x), skewness_pop(x), skewness_samp(x) FROM (VALUES (1), (1)) AS v(x);
--> NULL | NULL | NULL | NULL

SELECT skewness(x) FROM w;
--> refused: skewness_pop(x), which is Spark's

SELECT kurtosis(x) FROM w;
--> refused: kurtosis_samp(x), which is DuckDB's

SELECT product(x), product(x) FILTER (WHERE x > 2) FROM (VALUES (1e300), (1e300)) AS v(x);
--> inf | inf

-- Clauses.
SELECT x FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS v(x) ORDER BY x LIMIT 33%;
--> 1
--> 2
--> 3

SELECT x FROM (VALUES (1), (2), (3), (4)) AS v(x) ORDER BY x DESC LIMIT 50 PERCENT OFFSET 1;
--> 3
--> 2

SELECT count(*) FROM (SELECT x FROM w UNION ALL SELECT x FROM w LIMIT 12.5%);
--> 1

SELECT k, count(*) AS c FROM w GROUP BY k ORDER BY c LIMIT 50%;
--> y | 1

SELECT x FROM w LIMIT 0%;
--> no rows

SELECT x FROM w LIMIT 150%;
--> refused: a number from 0 to 100

SELECT x FROM w LIMIT 7 % 5 OFFSET 5;
--> NULL

SELECT 'abc' GLOB 'a*', 'abc' GLOB 'a?c', 'abc' GLOB '[!a]bc', 'ABC' GLOB 'a*', NULL GLOB 'a', NOT 'abc' GLOB 'b*', 'a*c' GLOB 'a\*c';
--> true | true | false | false | NULL | true | true

SELECT 'b' GLOB '[^a]';
--> refused: systems read in two ways

SELECT 1 AS glob;
--> 1

CREATE TABLE named (a INT, b TEXT, c INT);

INSERT INTO named BY NAME SELECT 'x' AS b, 1 AS a;

INSERT INTO named BY NAME (SELECT 2 AS c, 3 AS a);

SELECT a, b, c FROM named ORDER BY a;
--> 1 | x | NULL
--> 3 | NULL | 2

INSERT INTO named BY NAME SELECT 1 AS z;
--> refused: z

DESCRIBE FUNCTION no_such_function;
--> no rows

DESCRIBE FUNCTION Zeroifnull;
--> zeroifnull | NULL | [x] | NULL | SCALAR | 0 for null | zeroifnull(x)

SELECT from_json('{"a":1}', 'a INT');
--> refused: get_json_object(text

SHOW DATABASES;
--> refused: SHOW SCHEMAS

CREATE SCHEMA other;

SHOW SCHEMAS;
--> datafusion | other
--> datafusion | public

CREATE TABLE other.only_there AS SELECT 1 AS a;

SELECT count(*) FROM only_there;
--> refused: only_there

USE other;

SELECT a FROM only_there;
--> 1

USE public;

SELECT a FROM only_there;
--> refused: only_there

USE nowhere;
--> refused: there is no schema 'nowhere'
