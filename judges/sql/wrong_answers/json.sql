-- JSON in texts. Answers of DuckDB 1.5.5, but for the digits of numbers, and of Spark 4.3 for its functions.
CREATE TABLE j AS SELECT * FROM (VALUES (1, '{"a": {"b": [1, 2, 3]}, "c": "x\u0041"}', 'c'), (2, '{"a": null}', 'a'), (3, NULL, 'a'), (4, '[7, 8]', '$[0]'), (5, '{}', NULL)) AS v(n, t, p);

SELECT n, json_extract(t, '$.a'), json_extract_string(t, '$.c'), json_extract(t, p), json_extract_string(t, p) FROM j ORDER BY n;
--> 1 | {"b":[1,2,3]} | xA | "xA" | xA
--> 2 | null | NULL | null | NULL
--> 3 | NULL | NULL | NULL | NULL
--> 4 | NULL | NULL | 7 | 7
--> 5 | NULL | NULL | NULL | NULL

-- Arrows bind below sums and above comparisons; a name before one is no parameter of a lambda.
SELECT n, t -> 'a' -> 'b' -> 0, t -> '$.a.b' ->> -1, j.t -> 'a' ->> 'b', (t) ->> 0, t ->> 1 - 1 FROM j ORDER BY n;
--> 1 | 1 | 3 | [1,2,3] | NULL | NULL
--> 2 | NULL | NULL | NULL | NULL | NULL
--> 3 | NULL | NULL | NULL | NULL | NULL
--> 4 | NULL | NULL | NULL | 7 | 7
--> 5 | NULL | NULL | NULL | NULL | NULL

SELECT n FROM j WHERE t ->> 'c' = 'xA' OR NOT t ->> 0 <> '7' ORDER BY n;
--> 1
--> 4

SELECT '{"a":1}' -> 'a', '{"a":1}'::JSON ->> 'a' = '1', CAST('{"a" : [ ]}' AS JSON), '[1,2]' -> -1, json('[ 1 , "a b" ]');
--> 1 | true | {"a":[]} | 2 | [1,"a b"]

SELECT list_transform(['{"a":1}', '{"a":2}'], x -> x -> 'a'), list_filter(['{"a":1}', '{"a":2}'], x -> x ->> 'a' = '2');
--> [1, 2] | [{"a":2}]

-- Paths.
SELECT json_extract('{"a.b":3}', 'a.b'), json_extract('{"a":{"b":3}}', 'a.b'), json_extract('{"a":{"b":3}}', '/a/b'), json_extract('{"a b":1}', '$."a b"'), json_extract('[1,2,3]', '$[#-1]'), json_extract('[1,2]', '$[-3]'), json_extract('{"a":1,"a":2}', 'a'), json_extract('{"":1}', '/'), json_extract('[1]', '');
--> 3 | NULL | 3 | 1 | 3 | NULL | 1 | 1 | [1]

SELECT json_extract('{"a":[{"b":"x"},{"b":null},{"c":2}]}', '$.a[*].b'), json_extract_string('{"a":[{"b":"x"},{"b":null}]}', '$.a[*].b'), json_extract('[]', '$[*]'), json_extract(NULL, '$[*]'), json_extract('5', '$.*');
--> ["x", null] | [x, NULL] | [] | NULL | []

SELECT unnest(json_extract_string(t, '$.a.b[*]')) AS x FROM j ORDER BY x;
--> 1
--> 2
--> 3

SELECT json_extract('{"a":1}', '$.');
--> refused: '$.' is no path into JSON

SELECT json_extract('{"a":1}', '$..a');
--> refused: not supported: '..'

SELECT json_extract(t, p) FROM (VALUES ('[1]', '$[*]')) AS v(t, p);
--> refused: a * in a path of json_extract that is no constant

SELECT json_type('[1]', '$[*]');
--> refused: a * in a path of json_type

-- What is no JSON is an error.
SELECT json_extract('{"a":1', 'a');
--> refused: is no JSON

SELECT json_extract('', 'a');
--> refused: is no JSON

SELECT json_extract('{''a'':1}', 'a');
--> refused: is no JSON, at line 1, column 2

SELECT json_valid('{"a":1}'), json_valid('bad'), json_valid(''), json_valid(NULL), json_valid('1 2'), json_valid('01'), json_valid('"\ud800"'), json_valid(' null ');
--> true | false | false | NULL | false | false | false | true

SELECT json_type('{}'), json_type('[]'), json_type('1'), json_type('-1'), json_type('1.5'), json_type('1e5'), json_type('"x"'), json_type('null'), json_type('true'), json_type('18446744073709551616'), json_type('{"a":1}', 'b'), json_type(NULL);
--> OBJECT | ARRAY | UBIGINT | BIGINT | DOUBLE | DOUBLE | VARCHAR | NULL | BOOLEAN | DOUBLE | NULL | NULL

SELECT json_array_length('[1,[2,3],{}]'), json_array_length('[]'), json_array_length('{"a":[1,2]}', '$.a'), json_array_length('{}', '$.a'), json_array_length(NULL);
--> 3 | 0 | 2 | NULL | NULL

SELECT json_array_length('{"a":1}');
--> refused: json_array_length of JSON that is no array, but OBJECT

SELECT json_keys('{"b":1,"a":2,"b":3}'), json_keys('[1]'), json_keys('{"a":{"x":1}}', 'a'), json_keys('{}', 'a'), json_exists('{"a":null}', 'a'), json_exists('{"a":null}', 'b'), json_exists(NULL, 'b');
--> [b, a, b] | [] | [x] | NULL | true | false | NULL

-- Neither depth nor digits overflow.
SELECT length(json_extract(repeat('[', 100000) || repeat(']', 100000), '$[0]')), json_valid(repeat('[', 100000)), length(json_extract('{"a":' || repeat('9', 400) || '}', 'a')), length(json_extract('{"a":0.' || repeat('9', 400) || '}', 'a'));
--> 199998 | false | 400 | 402

SELECT length(get_json_object(repeat('[', 100000) || repeat(']', 100000), '$[0]')), get_json_object(repeat('[', 100000), '$[0]');
--> 199998 | NULL

-- Spark's functions have null for what is no JSON.
SELECT get_json_object('{"a":"x"}', '$.a'), get_json_object('{"a":[{"b":1},{"b":2}]}', '$.a[*].b'), get_json_object('{"a":["x"]}', '$.a[*]'), get_json_object('{"a":null}', '$.a'), get_json_object('bad', '$.a'), get_json_object('{"a":1} x', '$.a'), get_json_object(NULL, '$.a'), get_json_object('{"a":1}', NULL), get_json_object('{"a b":1}', '$[''a b'']');
--> x | [1,2] | "x" | NULL | NULL | 1 | NULL | NULL | 1

SELECT get_json_object('{"a":1}', 'a');
--> refused: 'a' is no path of get_json_object

SELECT get_json_object('{''a'':1}', '$.a');
--> refused: texts in single quotes

SELECT json_object_keys('{"a":1,"b":{"c":2}}'), json_object_keys('[1]'), json_object_keys('bad'), json_object_keys('{}'), json_object_keys(NULL);
--> [a, b] | NULL | NULL | [] | NULL

SELECT json_extract(1, 'a');
--> refused: json_extract takes a text of JSON and a path
