use std::collections::BTreeMap;

use datafusion::execution::SessionState;
use yeoul_dialect::syntax::Grammar;
use yeoul_dialect::syntax::Statement;
use yeoul_dialect::syntax::keywords::Keyword;
use yeoul_dialect::syntax::parser::{Parser, ParserError};
use yeoul_dialect::syntax::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::meaning::{self, DIALECT};
use super::planner::distinct::WITHIN_WATERMARK;
use super::query::{
    OutputMode, SinkDefinition, StreamColumn, StreamDefinition, TableDefinition, WatermarkClock,
    WatermarkDefinition,
};
use super::state_call::{KeyedTable, take_state_calls};
use super::window_function::{WindowedTable, take_window_functions};
use super::{OptionMap, Settings, column_type, parse_duration_ms};
use crate::error::{Error, Result, invalid};

/// Most bytes of a job file.
const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// The statements of a job file, in forms that Flink's users know:
///
/// ```sql
/// CREATE STREAM orders (id BIGINT NOT NULL, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('connector' = 'kafka', …);
/// CREATE SINK large WITH ('connector' = 'kafka', …);
/// SET 'execution.checkpointing.interval' = '1 s';
/// INSERT INTO large SELECT id FROM orders WHERE id > 1000;
/// ```
#[derive(Debug, Default)]
pub struct Script {
    /// Streams by name.
    pub streams: BTreeMap<String, StreamDefinition>,
    /// Tables at rest by name.
    pub tables: BTreeMap<String, TableDefinition>,
    /// Sinks by name.
    pub sinks: BTreeMap<String, SinkDefinition>,
    /// Views in the order in which they stand: each may read those before it.
    pub views: Vec<View>,
    /// Queries in the order in which they stand.
    pub inserts: Vec<Insert>,
}

/// `CREATE VIEW name AS SELECT …`: a name for a query that others read.
#[derive(Debug)]
pub struct View {
    /// Name.
    pub name: String,
    /// The query.
    pub query: Statement,
    /// Window functions.
    pub windowed_tables: Vec<WindowedTable>,
    /// Calls of state functions.
    pub keyed_tables: Vec<KeyedTable>,
}

/// `INSERT INTO sink SELECT … EMIT …`.
#[derive(Debug)]
pub struct Insert {
    /// Name of the sink.
    pub sink: String,
    /// The query.
    pub query: Statement,
    /// Its window functions.
    pub windowed_tables: Vec<WindowedTable>,
    /// Calls of state functions in it.
    pub keyed_tables: Vec<KeyedTable>,
    /// `EMIT`, if it is there.
    pub output_mode: Option<OutputMode>,
    /// Settings that hold where it stands.
    pub settings: Settings,
}

impl Script {
    /// Reads a job file.
    ///
    /// # Errors
    /// `Invalid` with line and column for what is not understood, and for names that are given twice.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > SCRIPT_BYTES_MAX {
            return Err(invalid(format!(
                "the job has {} bytes, at most {SCRIPT_BYTES_MAX} are read",
                text.len()
            )));
        }
        let dialect = Grammar;
        let tokens =
            Tokenizer::new(&dialect, text).tokenize_with_location().map_err(|error| syntax(error.into()))?;
        let state = meaning::context()?.state();
        let mut script = Self::default();
        let mut settings = Settings::default();
        let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
        let tokens: Vec<_> = tokens.into_iter().filter(|token| !is_space(token)).collect();
        for statement in tokens.split(|token| token.token == Token::SemiColon || token.token == Token::EOF) {
            if !statement.is_empty() {
                script.read(&state, statement.to_vec(), &mut settings)?;
            }
        }
        if script.inserts.is_empty() {
            return Err(invalid("the job has no query").with_hint("INSERT INTO sink SELECT … FROM stream"));
        }
        Ok(script)
    }

    fn read(
        &mut self,
        state: &SessionState,
        tokens: Vec<TokenWithSpan>,
        settings: &mut Settings,
    ) -> Result<()> {
        let first = tokens.first().cloned().expect("an empty statement is none");
        let is_word = |at: usize, text: &str| is_word(tokens.get(at), text);
        if is_word(0, "INSERT") {
            let insert = Insert::parse(state, tokens, settings.clone())?;
            if self.inserts.iter().any(|other| other.sink == insert.sink) {
                return Err(invalid(format!("two queries write to the sink '{}'", insert.sink)).with_hint(
                    "a query's checkpoint is named after its sink: create a sink for each query",
                ));
            }
            self.inserts.push(insert);
            return Ok(());
        }
        let (is_create, what) = (is_word(0, "CREATE"), tokens.get(1).map(|token| token.token.to_string()));
        let mut parser = Parser::new(&Grammar).with_tokens_with_locations(tokens.clone());
        parser.next_token();
        match what.map(|what| what.to_uppercase()).as_deref() {
            Some("STREAM") if is_create => {
                parser.next_token();
                let stream = stream(&mut parser)?;
                refuse_repeat("stream", &stream.name, self.is_relation(&stream.name))?;
                self.streams.insert(stream.name.clone(), stream);
            }
            Some("TABLE") if is_create => {
                parser.next_token();
                let table = table(&mut parser)?;
                refuse_repeat("table", &table.name, self.is_relation(&table.name))?;
                self.tables.insert(table.name.clone(), table);
            }
            Some("SINK") if is_create => {
                parser.next_token();
                let name = identifier(&mut parser)?;
                let options = options(&mut parser, format!("sink '{name}'"))?;
                refuse_repeat("sink", &name, self.sinks.contains_key(&name))?;
                self.sinks.insert(name.clone(), SinkDefinition { name, options });
            }
            Some("VIEW" | "TEMPORARY") if is_create => {
                let view = View::parse(state, tokens)?;
                refuse_repeat("view", &view.name, self.is_relation(&view.name))?;
                self.views.push(view);
                return Ok(());
            }
            _ if is_word(0, "SET") => {
                let (key, value) = assignment(&mut parser)?;
                settings.set(&key, &value)?;
            }
            _ => {
                let at = first.span.start;
                let text = format!(
                    "line {}, column {}: a statement that begins with '{}' is not one of a stream job",
                    at.line, at.column, first.token
                );
                return Err(invalid(text).with_hint(
                    "CREATE STREAM, CREATE TABLE, CREATE SINK, CREATE VIEW, SET and INSERT INTO are",
                ));
            }
        }
        end(&mut parser)
    }

    /// True if queries read something by this name.
    fn is_relation(&self, name: &str) -> bool {
        self.streams.contains_key(name)
            || self.tables.contains_key(name)
            || self.views.iter().any(|view| view.name == name)
    }
}

impl View {
    fn parse(state: &SessionState, tokens: Vec<TokenWithSpan>) -> Result<Self> {
        let mut head = Parser::new(&Grammar).with_tokens_with_locations(tokens.clone());
        head.next_token();
        let is_temporary = head.parse_keyword(Keyword::TEMPORARY);
        head.expect_keyword(Keyword::VIEW).map_err(syntax)?;
        let name = identifier(&mut head)?;
        head.expect_keyword(Keyword::AS).map_err(syntax)?;
        // CREATE, VIEW, the name and AS.
        let body = tokens[4 + usize::from(is_temporary)..].to_vec();
        let (query, windowed_tables, keyed_tables) = query(state, body, &name)?;
        Ok(Self { name, query, windowed_tables, keyed_tables })
    }
}

/// A query with its window and state functions, which `owner` tells apart from those of others.
fn query(
    state: &SessionState,
    tokens: Vec<TokenWithSpan>,
    owner: &str,
) -> Result<(Statement, Vec<WindowedTable>, Vec<KeyedTable>)> {
    let (tokens, windowed_tables) = take_window_functions(take_within_watermark(tokens)?, owner)?;
    let (tokens, keyed_tables) = take_state_calls(tokens, owner)?;
    let statement = DIALECT.read_tokens(tokens, state).map_err(meaning::refused)?;
    if !meaning::is_query(&statement) {
        return Err(invalid(format!("'{statement}' is no query")).with_hint("SELECT … FROM stream"));
    }
    Ok((statement, windowed_tables, keyed_tables))
}

/// Takes `WITHIN WATERMARK` out of `DISTINCT WITHIN WATERMARK ON (…)`; what stands for it is the first of the expressions.
fn take_within_watermark(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut at = 0;
    while at < tokens.len() {
        let is = |ahead: usize, text: &str| is_word(tokens.get(at + ahead), text);
        if !(is(0, "DISTINCT") && is(1, "WITHIN") && is(2, "WATERMARK")) {
            at += 1;
            continue;
        }
        let is_on = is(3, "ON") && tokens.get(at + 4).is_some_and(|token| token.token == Token::LParen);
        if !is_on {
            return Err(invalid("DISTINCT WITHIN WATERMARK names its keys")
                .with_hint("SELECT DISTINCT WITHIN WATERMARK ON (id) id, ts FROM stream"));
        }
        let span = tokens[at].span;
        let mark = [Token::make_word(WITHIN_WATERMARK, None), Token::LParen, Token::RParen, Token::Comma];
        let mark = mark.map(|token| TokenWithSpan::new(token, span));
        tokens.splice(at + 5..at + 5, mark);
        tokens.drain(at + 1..at + 3);
        at += 1;
    }
    Ok(tokens)
}

impl Insert {
    fn parse(state: &SessionState, tokens: Vec<TokenWithSpan>, settings: Settings) -> Result<Self> {
        // EMIT is the last clause, and no name that SQL knows.
        let emit = tokens.iter().rposition(|token| is_word(Some(token), "EMIT"));
        let (statement, clause) = tokens.split_at(emit.unwrap_or(tokens.len()));
        let output_mode = if emit.is_some() { Some(output_mode(&clause[1..])?) } else { None };
        let mut head = Parser::new(&Grammar).with_tokens_with_locations(statement.to_vec());
        head.next_token();
        head.expect_keyword(Keyword::INTO).map_err(syntax)?;
        let sink = identifier(&mut head)?;
        // INSERT, INTO and the name.
        let (query, windowed_tables, keyed_tables) = query(state, statement[3..].to_vec(), "")?;
        Ok(Self { sink, query, windowed_tables, keyed_tables, output_mode, settings })
    }
}

fn output_mode(tokens: &[TokenWithSpan]) -> Result<OutputMode> {
    let words: Vec<String> = tokens.iter().map(|token| token.token.to_string().to_uppercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["UPDATES"] => Ok(OutputMode::Update),
        ["ON", "WINDOW", "CLOSE"] => Ok(OutputMode::Append),
        ["COMPLETE"] => Ok(OutputMode::Complete),
        other => Err(invalid(format!("EMIT {} is not understood", other.join(" ")))
            .with_hint("EMIT UPDATES, EMIT ON WINDOW CLOSE or EMIT COMPLETE")),
    }
}

fn stream(parser: &mut Parser<'_>) -> Result<StreamDefinition> {
    let name = identifier(parser)?;
    let (mut columns, mut watermark) = (Vec::new(), None);
    if parser.consume_token(&Token::LParen) {
        loop {
            if is_word(Some(&parser.peek_token()), "WATERMARK")
                && is_word(Some(&parser.peek_nth_token(1)), "FOR")
            {
                refuse_repeat("watermark of stream", &name, watermark.is_some())?;
                watermark = Some(watermark_definition(parser)?);
            } else {
                let column = column(parser)?;
                refuse_repeat(
                    "column",
                    &column.name,
                    columns.iter().any(|c: &StreamColumn| c.name == column.name),
                )?;
                columns.push(column);
            }
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen).map_err(syntax)?;
    }
    let mut options = options(parser, format!("stream '{name}'"))?;
    if let Some(watermark) = &mut watermark {
        watermark.clock = watermark_clock(&mut options)?;
    }
    Ok(StreamDefinition { name, columns, watermark, options })
}

/// `name (column TYPE [NOT NULL], …) WITH (…)`
fn table(parser: &mut Parser<'_>) -> Result<TableDefinition> {
    let StreamDefinition { name, columns, watermark, options } = stream(parser)?;
    let wrong = |text: &str| Err(invalid(format!("table '{name}': {text}")));
    if columns.is_empty() {
        return wrong("it names no columns");
    }
    if watermark.is_some() {
        return wrong("a table at rest has no watermark");
    }
    if let Some(column) = columns.iter().find(|column| column.metadata.is_some()) {
        return wrong(&format!("column '{}': there is no metadata", column.name));
    }
    Ok(TableDefinition { options: options.owned_by(format!("table '{name}'")), name, columns })
}

/// `name TYPE [METADATA [FROM 'column']] [NOT NULL]`
fn column(parser: &mut Parser<'_>) -> Result<StreamColumn> {
    let name = identifier(parser)?;
    let data_type = column_type(&parser.parse_data_type().map_err(syntax)?)?;
    let mut metadata = None;
    if is_word(Some(&parser.peek_token()), "METADATA") {
        parser.next_token();
        let from = parser.parse_keyword(Keyword::FROM);
        metadata = Some(if from { parser.parse_literal_string().map_err(syntax)? } else { name.clone() });
    }
    let is_nullable = !parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]);
    Ok(StreamColumn { name, data_type, is_nullable, metadata })
}

/// `WATERMARK FOR column AS column [- INTERVAL '5' SECOND]`
fn watermark_definition(parser: &mut Parser<'_>) -> Result<WatermarkDefinition> {
    parser.next_token();
    parser.expect_keyword(Keyword::FOR).map_err(syntax)?;
    let column = identifier(parser)?;
    parser.expect_keyword(Keyword::AS).map_err(syntax)?;
    let same = identifier(parser)?;
    if same != column {
        return Err(invalid(format!(
            "WATERMARK FOR {column} AS {same}: it can only be {column}, or {column} - INTERVAL …"
        )));
    }
    let mut delay_ms = 0;
    if parser.consume_token(&Token::Minus) {
        parser.expect_keyword(Keyword::INTERVAL).map_err(syntax)?;
        let mut text = parser.parse_literal_string().map_err(syntax)?;
        if let Token::Word(unit) = parser.peek_token().token {
            parser.next_token();
            text = format!("{text} {}", unit.value);
        }
        delay_ms = parse_duration_ms(&text)?;
    }
    Ok(WatermarkDefinition { column, delay_ms, clock: WatermarkClock::default() })
}

/// Option that says where rows beyond `watermark.future-limit` go.
const FUTURE_ROWS: &str = "watermark.future-rows";

fn watermark_clock(options: &mut OptionMap) -> Result<WatermarkClock> {
    let mut duration = |name| {
        let given = options.take(name);
        let parsed = given.map(|text| match parse_duration_ms(&text) {
            Ok(ms) if ms > 0 => Ok(ms),
            _ => Err(options.wrong(name, &text, "a duration of 1 ms or more")),
        });
        parsed.transpose()
    };
    let idle_after_ms = duration("scan.watermark.idle-timeout")?;
    let future_limit_ms = duration("watermark.future-limit")?;
    let future_rows = options.take(FUTURE_ROWS);
    let sets_future_aside = match future_rows.as_deref().map(str::to_lowercase).as_deref() {
        None | Some("keep") => false,
        Some("dead-letter") if future_limit_ms.is_some() => true,
        Some("dead-letter") => {
            let text = format!("{}: '{FUTURE_ROWS}' needs 'watermark.future-limit'", options.owner());
            return Err(invalid(text));
        }
        Some(other) => return Err(options.wrong(FUTURE_ROWS, other, "keep or dead-letter")),
    };
    Ok(WatermarkClock { idle_after_ms, future_limit_ms, sets_future_aside })
}

/// `WITH ('name' = 'value', …)`
fn options(parser: &mut Parser<'_>, owner: String) -> Result<OptionMap> {
    parser.expect_keyword(Keyword::WITH).map_err(syntax)?;
    parser.expect_token(&Token::LParen).map_err(syntax)?;
    let given = parser.parse_comma_separated(|parser| {
        let name = parser.parse_literal_string()?;
        parser.expect_token(&Token::Eq)?;
        Ok((name, parser.parse_literal_string()?))
    });
    let given = given.map_err(syntax)?;
    parser.expect_token(&Token::RParen).map_err(syntax)?;
    OptionMap::new(owner, given)
}

/// `key = value` or `'key' = 'value'`
fn assignment(parser: &mut Parser<'_>) -> Result<(String, String)> {
    let mut side = |end: Option<&Token>| {
        let mut text = String::new();
        loop {
            let token = parser.peek_token();
            if token.token == Token::EOF || end.is_some_and(|end| token.token == *end) {
                break text;
            }
            parser.next_token();
            match token.token {
                Token::SingleQuotedString(quoted) => text.push_str(&quoted),
                other => text.push_str(&other.to_string()),
            }
        }
    };
    let key = side(Some(&Token::Eq));
    if key.is_empty() {
        return Err(invalid("SET takes a key and a value: SET 'key' = 'value'"));
    }
    // The end of the statement is the end of the tokens, so what comes now is '=' or nothing.
    let value = side(None);
    match value.strip_prefix('=') {
        Some(value) if !value.is_empty() => Ok((key, value.to_owned())),
        _ => Err(invalid(format!("SET {key} has no value")).with_hint("SET 'key' = 'value'")),
    }
}

fn identifier(parser: &mut Parser<'_>) -> Result<String> {
    Ok(parser.parse_identifier().map_err(syntax)?.value)
}

fn end(parser: &mut Parser<'_>) -> Result<()> {
    match parser.peek_token() {
        token if token.token == Token::EOF => Ok(()),
        token => parser.expected("the end of the statement", token).map_err(syntax),
    }
}

fn is_word(token: Option<&TokenWithSpan>, text: &str) -> bool {
    let Some(TokenWithSpan { token: Token::Word(word), .. }) = token else { return false };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text)
}

fn refuse_repeat(what: &str, name: &str, is_repeat: bool) -> Result<()> {
    if is_repeat { Err(invalid(format!("the {what} '{name}' is given twice"))) } else { Ok(()) }
}

fn syntax(error: ParserError) -> Error {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => "it is nested too deeply".to_owned(),
    };
    invalid(format!("cannot read the job: {text}"))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::super::{TIMESTAMP, Trigger};
    use super::*;

    const STREAM: &str = "CREATE STREAM `in` (id BIGINT NOT NULL, userName STRING, ts TIMESTAMP(3), k BINARY METADATA FROM 'key', \
                          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'noop', 'a' = 'b');";

    #[test]
    fn a_job_is_streams_sinks_settings_and_queries() {
        let text = format!(
            "-- a comment; with a semicolon\n{STREAM} CREATE SINK out WITH ('connector' = 'console');\n\
             SET trigger = 'available now'; SET 'execution.checkpointing.interval' = '200 ms';\n\
             INSERT INTO out SELECT id, ';' FROM `in` WHERE userName = 'emit' EMIT UPDATES;\n"
        );
        let script = Script::parse(&text).unwrap();
        let stream = &script.streams["in"];
        let columns: Vec<_> =
            stream.columns.iter().map(|c| (c.name.as_str(), c.data_type.clone(), c.is_nullable)).collect();
        assert_eq!(
            columns,
            [
                ("id", DataType::Int64, false),
                ("userName", DataType::Utf8, true),
                ("ts", TIMESTAMP(), true),
                ("k", DataType::Binary, true)
            ]
        );
        assert_eq!(stream.columns[3].metadata.as_deref(), Some("key"));
        let clock = WatermarkClock::default();
        let expected = WatermarkDefinition { column: "ts".into(), delay_ms: 5000, clock };
        assert_eq!(stream.watermark, Some(expected));
        assert!(script.sinks.contains_key("out"));
        let insert = &script.inserts[0];
        assert_eq!((insert.sink.as_str(), insert.output_mode), ("out", Some(OutputMode::Update)));
        assert_eq!(insert.settings.trigger, Trigger::AvailableNow);
        assert_eq!(insert.settings.checkpoint_interval_ms, 200);
        assert!(insert.query.to_string().contains("WHERE userName = 'emit'"), "{}", insert.query);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name_and_place() {
        let with = |rest: &str| format!("{STREAM} CREATE SINK out WITH ('connector' = 'console'); {rest}");
        for (text, expected) in [
            (String::new(), "the job has no query"),
            (with("SELECT 1"), "a statement that begins with 'SELECT'"),
            (with("CREATE INDEX i ON t (a)"), "a statement that begins with 'CREATE'"),
            (with("INSERT INTO out SELECT id FROM `in` EMIT SOMETIMES"), "EMIT SOMETIMES is not understood"),
            (
                with("INSERT INTO out SELECT 1; INSERT INTO out SELECT 2"),
                "two queries write to the sink 'out'",
            ),
            (with("INSERT INTO out SELECT (id FROM `in`"), "line 1, column 266: syntax error"),
            (with("SET a"), "SET a has no value"),
            (with("SET a = 1"), "the setting 'a' is not honoured"),
            (format!("{STREAM} {STREAM}"), "the stream 'in' is given twice"),
            ("CREATE STREAM s (a INT, a INT) WITH ('x' = 'y')".into(), "the column 'a' is given twice"),
            ("CREATE STREAM s (a INTERVAL) WITH ('x' = 'y')".into(), "no columns of type"),
            ("CREATE STREAM s (a INT) WITH ('x' = 'y', 'X' = 'z')".into(), "the option 'X' is given twice"),
            ("CREATE STREAM s (a INT) WITH ('x' = 'y') garbage".into(), "Expected: the end of the statement"),
            ("CREATE STREAM s (a INT, WATERMARK FOR a AS b) WITH ('x' = 'y')".into(), "it can only be a"),
            ("CREATE SINK s".into(), "Expected: WITH"),
        ] {
            let error = Script::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }
}
