use yeoul_dialect::syntax::tokenizer::{Token, TokenWithSpan};

use super::tokens::Tokens;
use crate::error::{Result, invalid};
use crate::state_function::{Argument, Arguments};

/// A call of a state function that was found in a query, as Flink calls functions over the rows of each key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedTable {
    /// Name under which the query now reads it.
    pub name: String,
    /// Name of the function.
    pub function: String,
    /// Name of the stream or view.
    pub stream: String,
    /// Names of the columns by which its rows are grouped.
    pub keys: Vec<String>,
    /// Arguments.
    pub arguments: Arguments,
}

/// Takes `f(TABLE t PARTITION BY k, name => …)` out of a query, for each of which it then reads a table. The tokens are without white
/// space and window functions; `owner` tells these tables apart from those of other queries.
///
/// # Errors
/// `Invalid` if a call is not written so.
pub fn take_state_calls(
    tokens: Vec<TokenWithSpan>,
    owner: &str,
) -> Result<(Vec<TokenWithSpan>, Vec<KeyedTable>)> {
    let mut rest = Tokens { tokens, at: 0 };
    let (mut kept, mut found) = (Vec::new(), Vec::<KeyedTable>::new());
    while let Some(token) = rest.tokens.get(rest.at).cloned() {
        let is_wrapped = rest.is_word(0, "TABLE") && rest.is(1, &Token::LParen) && rest.is_state_call(2);
        if !is_wrapped && !rest.is_state_call(0) {
            kept.push(token);
            rest.at += 1;
            continue;
        }
        rest.at += if is_wrapped { 2 } else { 0 };
        let mut call = rest.state_call()?;
        if is_wrapped {
            rest.expect(&Token::RParen)?;
        }
        call.name = format!("{}#{owner}{}", call.stream, found.len());
        let word = |text: &str, quote| TokenWithSpan::new(Token::make_word(text, quote), token.span);
        kept.push(word(&call.name, Some('"')));
        if !rest.has_alias() {
            kept.extend([word("AS", None), word(&call.stream, Some('"'))]);
        }
        found.push(call);
    }
    Ok((kept, found))
}

impl Tokens {
    fn is_state_call(&self, ahead: usize) -> bool {
        let is_name = matches!(self.peek(ahead), Some(Token::Word(_)));
        is_name
            && self.is(ahead + 1, &Token::LParen)
            && self.is_word(ahead + 2, "TABLE")
            && matches!(self.peek(ahead + 3), Some(Token::Word(_)))
    }

    fn state_call(&mut self) -> Result<KeyedTable> {
        let function = self.identifier()?;
        self.expect(&Token::LParen)?;
        self.expect_word("TABLE")?;
        let stream = self.identifier()?;
        if !self.is_word(0, "PARTITION") {
            return Err(invalid(format!(
                "{function}(TABLE {stream}, …) does not name the columns of its keys"
            ))
            .with_hint(format!("{function}(TABLE {stream} PARTITION BY column, …)")));
        }
        self.expect_word("PARTITION")?;
        self.expect_word("BY")?;
        let is_list = self.is(0, &Token::LParen);
        self.at += usize::from(is_list);
        let mut keys = vec![self.identifier()?];
        // What comes after a comma may be an argument.
        while self.is(0, &Token::Comma) && (is_list || !self.is(2, &Token::RArrow)) {
            self.at += 1;
            keys.push(self.identifier()?);
        }
        if is_list {
            self.expect(&Token::RParen)?;
        }
        let mut given = Vec::new();
        while self.is(0, &Token::Comma) {
            self.at += 1;
            let name = self.identifier()?;
            self.expect(&Token::RArrow)?;
            given.push((name, self.argument()?));
        }
        self.expect(&Token::RParen)?;
        let arguments = Arguments::new(&function, given)?;
        Ok(KeyedTable { name: String::new(), function, stream, keys, arguments })
    }

    fn argument(&mut self) -> Result<Argument> {
        if self.is_word(0, "INTERVAL") {
            return Ok(Argument::Interval(self.interval_ms()?));
        }
        if self.is_word(0, "DESCRIPTOR") {
            self.at += 1;
            self.expect(&Token::LParen)?;
            let column = self.identifier()?;
            self.expect(&Token::RParen)?;
            return Ok(Argument::Column(column));
        }
        let value = match self.peek(0) {
            Some(Token::SingleQuotedString(text)) => Argument::Text(text.clone()),
            Some(Token::Number(text, _)) => Argument::Number(text.clone()),
            _ => {
                let hint =
                    "an argument is DESCRIPTOR(column), INTERVAL '…' UNIT, a number or a text in quotes";
                return Err(invalid("an argument of a state function is not understood").with_hint(hint));
            }
        };
        self.at += 1;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use yeoul_dialect::syntax::Grammar;
    use yeoul_dialect::syntax::tokenizer::Tokenizer;

    use super::*;

    fn taken(sql: &str) -> Result<(String, Vec<KeyedTable>)> {
        let all = Tokenizer::new(&Grammar, sql).tokenize_with_location().unwrap();
        let all = all.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
        let (kept, found) = take_state_calls(all, "v")?;
        Ok((kept.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" "), found))
    }

    #[test]
    fn calls_become_tables() {
        let sql = "SELECT k FROM f(TABLE t PARTITION BY k, b, ts => DESCRIPTOR(at), gap => INTERVAL '5' SECOND) WHERE k > 1";
        let (kept, found) = taken(sql).unwrap();
        assert_eq!(kept, "SELECT k FROM \"t#v0\" AS \"t\" WHERE k > 1");
        let given =
            [("ts".to_owned(), Argument::Column("at".into())), ("gap".to_owned(), Argument::Interval(5000))];
        let expected = KeyedTable {
            name: "t#v0".into(),
            function: "f".into(),
            stream: "t".into(),
            keys: vec!["k".into(), "b".into()],
            arguments: Arguments::new("f", given).unwrap(),
        };
        assert_eq!(found, [expected]);
        let sql = "SELECT 1 FROM TABLE(g(TABLE t PARTITION BY (a, b), n => 7, mode => 'x')) AS w";
        let (kept, found) = taken(sql).unwrap();
        assert_eq!((kept.as_str(), found[0].keys.len()), ("SELECT 1 FROM \"t#v0\" AS w", 2));
    }

    #[test]
    fn a_call_that_is_written_otherwise_is_refused() {
        for (call, expected) in [
            ("f(TABLE t)", "does not name the columns of its keys"),
            ("f(TABLE t PARTITION BY k, INTERVAL '5' SECOND)", "table function has to go on with"),
            ("f(TABLE t PARTITION BY k, a => b)", "is not understood"),
            ("f(TABLE t PARTITION BY k, a => 1, A => 2)", "the argument 'A' is given twice"),
            ("f(TABLE t PARTITION BY k", "found the end"),
        ] {
            let error = taken(&format!("SELECT 1 FROM {call}")).unwrap_err().to_string();
            assert!(error.contains(expected), "{call}: {error}");
        }
    }
}
