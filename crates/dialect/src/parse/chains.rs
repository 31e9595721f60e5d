//! Chains of thousands of operators. The parser turns `a OR b OR c …` into a tree as deep as the chain is long, and
//! planning, running and even dropping it recurse into each level. A stack overflow would end the process, so a chain that
//! is too long for [`STACK_BYTES`] is refused before it is parsed.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::span::span_of;
use crate::{Error, Result};

/// The stack of a thread that plans or runs statements: enough for the longest chain of operators that is read. It is address
/// space; memory is used as far as it is touched.
pub const STACK_BYTES: usize = 64 << 20;

/// The most operators in a row that no parentheses separate. DataFusion needs some 2 KiB of stack for each.
pub(super) const OPERATORS_MAX: usize = 10_000;

/// Refuses chains that are too long.
///
/// # Errors
/// `Invalid` for a chain of more than [`OPERATORS_MAX`] operators.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    // The operators so far, and those before each open parenthesis.
    let (mut operators, mut outside) = (0, Vec::new());
    for token in tokens {
        match &token.token {
            Token::LParen => outside.push(std::mem::take(&mut operators)),
            Token::RParen => operators = outside.pop().unwrap_or(operators),
            Token::Comma | Token::SemiColon => operators = 0,
            operator if is_operator(operator) => {
                operators += 1;
                if operators > OPERATORS_MAX {
                    let text = format!("more than {OPERATORS_MAX} operators in a row");
                    return Err(Error::new(ErrorKind::Invalid, text).with_span(span_of(token)).with_hint(
                        "put parts of them into parentheses, or values into an IN list or a table",
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// True if the text before a token is an operand of it. Words between queries or tables count as well.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::XOR
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::RLIKE
                | Keyword::REGEXP
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::DIV
                | Keyword::OVERLAPS
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::MINUS
        ),
        Token::EOF
        | Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::Whitespace(_)
        | Token::Placeholder(_)
        | Token::Period
        | Token::RParen
        | Token::RBracket
        | Token::RBrace => false,
        // Strings of other dialects are not operators either, but nobody writes thousands of them in a row.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn chain_is_fine(sql: &str) -> bool {
        check(&Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap()).is_ok()
    }

    #[test]
    fn operators_of_one_level_count_together() {
        for operator in
            [" OR a", " + a", " || a", " AND a", "::int", "[1]", " IS NULL", " UNION ALL SELECT a", " JOIN a"]
        {
            let chain = |operators: usize| format!("SELECT a{}", operator.repeat(operators));
            assert!(chain_is_fine(&chain(OPERATORS_MAX)), "{operator}");
            assert!(!chain_is_fine(&chain(OPERATORS_MAX + 1)), "{operator}");
        }
        let half = format!("a{}", " + a".repeat(OPERATORS_MAX / 2));
        assert!(!chain_is_fine(&format!("SELECT {half} + {half}")));
        assert!(chain_is_fine(&format!("SELECT ({half}) + ({half}), {half} FROM t WHERE f({half})")));
    }

    #[test]
    fn lists_are_no_chains() {
        let list = vec!["(1, 'a', -1)"; OPERATORS_MAX + 1].join(", ");
        assert!(chain_is_fine(&format!("SELECT * FROM (VALUES {list}) WHERE (a, b) IN ({list})")));
        let list = vec!["a.b"; OPERATORS_MAX + 1].join(", ");
        assert!(chain_is_fine(&format!("SELECT {list} FROM t")));
    }
}
