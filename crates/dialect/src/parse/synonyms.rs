//! What others write by another name, or with an operator that DataFusion does not plan: `mod(a, b)`, `~a`, `LIKE … ESCAPE '#'`, `RLIKE`,
//! `MINUS`, `SEMI JOIN`, `HUGEINT`, `TEMPORARY` for what no session keeps longer anyway.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, FromTable, FunctionArg, FunctionArgExpr, FunctionArguments,
    JoinOperator, SetExpr, SetOperator, ShowStatementFilter, Statement as Sql, TableFactor, TableWithJoins,
    Truncate, TruncateTableTarget, UnaryOperator, Value, ValueWithSpan,
};
use yeoul_base::ErrorKind;

use super::template;
use crate::{Error, Result};

/// Takes `TEMPORARY` out of the definition of a table or view: none outlives its session.
pub(super) fn without_temporary(statement: &mut Statement) {
    if let Statement::Statement(statement) = statement {
        match statement.as_mut() {
            Sql::CreateView(view) => view.temporary = false,
            Sql::CreateTable(table) => table.temporary = false,
            _ => {}
        }
    }
}

/// Writes `TRUNCATE t` as `DELETE FROM t`. Planning refuses what else a `TRUNCATE` may say.
pub(super) fn delete_all(statement: &mut Statement) {
    let Statement::Statement(statement) = statement else { return };
    let Sql::Truncate(Truncate {
        table_names,
        partitions: None,
        table: _,
        if_exists: false,
        identity: None,
        cascade: None,
        on_cluster: None,
    }) = statement.as_mut()
    else {
        return;
    };
    let [TruncateTableTarget { name, only: _, has_asterisk: false }] = table_names.as_slice() else { return };
    let mut table = template::table("t");
    if let TableFactor::Table { name: of, .. } = &mut table {
        *of = name.clone();
    }
    let mut delete = template::statement("DELETE FROM t");
    if let Sql::Delete(delete) = &mut delete {
        delete.from = FromTable::WithFromKeyword(vec![TableWithJoins { relation: table, joins: Vec::new() }]);
    }
    **statement = delete;
}

/// Writes `MINUS` as `EXCEPT`.
pub(super) fn without_minus(body: &mut SetExpr) {
    if let SetExpr::SetOperation { op, left, right, .. } = body {
        if *op == SetOperator::Minus {
            *op = SetOperator::Except;
        }
        without_minus(left);
        without_minus(right);
    }
}

/// Writes `SEMI JOIN` and `ANTI JOIN` with the side that they keep, the left one.
pub(super) fn name_sides(tables: &mut TableWithJoins) {
    for join in &mut tables.joins {
        join.join_operator = match std::mem::replace(&mut join.join_operator, JoinOperator::CrossApply) {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            other => other,
        };
    }
}

/// Makes the pattern of `SHOW FUNCTIONS LIKE` one of SQL: names have no `*`, which is Spark's `%`.
pub(super) fn translate_pattern(statement: &mut Statement) {
    if let Statement::Statement(statement) = statement
        && let Sql::ShowFunctions { filter: Some(ShowStatementFilter::Like(pattern)) } = statement.as_mut()
    {
        // DataFusion puts it into a text of SQL.
        *pattern = pattern.replace('*', "%").replace('\'', "''");
    }
}

/// Refuses an escape character that is none, and one of a pattern that is computed.
///
/// # Errors
/// `Invalid`, with what to write.
pub(super) fn check(expr: &Expr) -> Result<()> {
    if let Expr::Like { pattern, escape_char: Some(escape), .. }
    | Expr::ILike { pattern, escape_char: Some(escape), .. } = expr
    {
        escaped(pattern, escape)?;
    }
    Ok(())
}

/// Writes an expression in DataFusion's words.
pub(super) fn translate(expr: &mut Expr) {
    match expr {
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            // It was checked when the statement was read.
            if let Some(Ok(text)) = escape_char.as_ref().map(|escape| escaped(pattern, escape)) {
                **pattern = Expr::value(Value::SingleQuotedString(text));
                *escape_char = None;
            }
        }
        Expr::RLike { negated, expr: text, pattern, regexp: _ } => {
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            *expr = binary(taken(text), op, taken(pattern));
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: operand } => {
            let all = Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(Expr::value(Value::SingleQuotedString("-1".to_owned()))),
                data_type: DataType::BigInt(None),
                array: false,
                format: None,
            };
            *expr = binary(taken(operand), BinaryOperator::BitwiseXor, all);
        }
        Expr::Function(function) => {
            let is_mod = function.name.to_string().eq_ignore_ascii_case("mod");
            let FunctionArguments::List(arguments) = &mut function.args else { return };
            if let (true, [left, right]) = (is_mod, arguments.args.as_mut_slice())
                && let (Some(left), Some(right)) = (operand(left), operand(right))
            {
                *expr = binary(taken(left), BinaryOperator::Modulo, taken(right));
            }
        }
        _ => {}
    }
}

fn operand(argument: &mut FunctionArg) -> Option<&mut Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let [left, right] = [left, right].map(|side| Box::new(Expr::Nested(Box::new(side))));
    Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }))
}

/// A pattern with the escape character `\\`, which is DataFusion's only one.
fn escaped(pattern: &Expr, escape: &ValueWithSpan) -> Result<String> {
    let refused = |what: String| {
        Error::new(ErrorKind::Invalid, what)
            .with_hint("write a LIKE '10#%' ESCAPE '#', or use a regular expression: a ~ b")
    };
    let escape = match &escape.value {
        Value::SingleQuotedString(text) => text,
        other => return Err(refused(format!("the escape character {other} is no text"))),
    };
    let mut letters = escape.chars();
    let (Some(escape), None) = (letters.next(), letters.next()) else {
        return Err(refused(format!("the escape character '{escape}' is not one character")));
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(pattern), .. }) = pattern else {
        return Err(refused(
            "not supported: ESCAPE behind a pattern that is no text between quotes".to_owned(),
        ));
    };
    let mut text = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != escape {
            if letter == '\\' {
                text.push('\\');
            }
            text.push(letter);
            continue;
        }
        let Some(literal) = letters.next() else {
            return Err(refused(format!("the pattern '{pattern}' ends with its escape character")));
        };
        if matches!(literal, '%' | '_' | '\\') {
            text.push('\\');
        }
        text.push(literal);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::called;

    #[test]
    fn names_of_others_are_operators() {
        for (written, expected) in [
            ("SELECT mod(a + 1, 3)", "SELECT ((a + 1) % (3))"),
            ("SELECT ~a", "SELECT ((a) ^ ('-1'::BIGINT))"),
            ("SELECT a LIKE '10#%_#_##' ESCAPE '#'", "SELECT a LIKE '10\\%_\\_#'"),
            ("SELECT a NOT ILIKE 'c:\\x!%' ESCAPE '!'", "SELECT a NOT ILIKE 'c:\\\\x\\%'"),
            ("SELECT a LIKE 'b\\%'", "SELECT a LIKE 'b\\%'"),
            ("SELECT a RLIKE 'b'", "SELECT ((a) ~ ('b'))"),
            ("SELECT a NOT REGEXP 'b'", "SELECT ((a) !~ ('b'))"),
        ] {
            assert_eq!(called(written), expected, "{written}");
        }
    }

    #[test]
    fn an_escape_character_is_one_and_escapes_something() {
        let escaped = |pattern: &str, escape: &str| {
            let [pattern, escape] = [pattern, escape].map(|text| Value::SingleQuotedString(text.to_owned()));
            escaped(&Expr::value(pattern), &escape.into()).map_err(|error| error.to_string())
        };
        assert_eq!(escaped("a#%", "#"), Ok("a\\%".to_owned()));
        assert!(escaped("a#", "#").unwrap_err().contains("ends with its escape character"));
        assert!(escaped("a", "").is_err() && escaped("a", "##").is_err());
    }
}
