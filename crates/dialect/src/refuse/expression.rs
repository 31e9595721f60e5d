//! Expressions.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, CaseWhen, DataType, DictionaryField, Expr, Interval, LambdaFunction,
    LambdaFunctionParameter, Map, MapEntry, MemberOf, StructField, Subscript, TypedString, UnaryOperator,
    Value,
};

use super::refused::{Clause, absent};
use super::walk::Walk;
use crate::Result;

impl Walk<'_> {
    pub(super) fn exprs(&mut self, exprs: &mut [Expr]) -> Result<()> {
        exprs.iter_mut().try_for_each(|expr| self.expr(expr))
    }

    fn expr_lists(&mut self, lists: &mut [Vec<Expr>]) -> Result<()> {
        lists.iter_mut().try_for_each(|list| self.exprs(list))
    }

    fn optional(&mut self, expr: &mut Option<Box<Expr>>) -> Result<()> {
        expr.as_mut().map_or(Ok(()), |expr| self.expr(expr))
    }

    pub(super) fn expr(&mut self, mut expr: &mut Expr) -> Result<()> {
        // There may be thousands in a chain, which is as deep as it is long on the left: recursion would overflow the stack.
        while let Some(left) = self.right_operands(expr)? {
            expr = left;
        }
        Ok(())
    }

    /// Walks an expression, but for the operand on its left, which it returns: the next link of a chain.
    fn right_operands<'e>(&mut self, expr: &'e mut Expr) -> Result<Option<&'e mut Expr>> {
        match expr {
            Expr::BinaryOp { left, op: _, right }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right)
            | Expr::AnyOp { left, compare_op: _, right, is_some: _ }
            | Expr::AllOp { left, compare_op: _, right } => self.expr(right).map(|()| Some(&mut **left)),
            Expr::IsFalse(operand)
            | Expr::IsNotFalse(operand)
            | Expr::IsTrue(operand)
            | Expr::IsNotTrue(operand)
            | Expr::IsNull(operand)
            | Expr::IsNotNull(operand)
            | Expr::IsUnknown(operand)
            | Expr::IsNotUnknown(operand)
            | Expr::Nested(operand)
            | Expr::UnaryOp { op: _, expr: operand }
            | Expr::Extract { field: _, syntax: _, expr: operand }
            // Planning refuses a field and a scale.
            | Expr::Ceil { expr: operand, field: _ }
            | Expr::Floor { expr: operand, field: _ }
            | Expr::Named { expr: operand, name: _ }
            // The path is a text to planning.
            | Expr::JsonAccess { value: operand, path: _ } => Ok(Some(operand)),
            Expr::CompoundFieldAccess { root, access_chain } => {
                access_chain.iter_mut().try_for_each(|access| self.access(access))?;
                Ok(Some(root))
            }
            Expr::InList { expr, list, negated: _ } => {
                self.exprs(list)?;
                Ok(Some(expr))
            }
            Expr::InSubquery { expr, subquery, negated: _ } => {
                self.inner_query(subquery)?;
                Ok(Some(expr))
            }
            Expr::Between { expr, negated: _, low, high } => {
                self.expr(low)?;
                self.expr(high)?;
                Ok(Some(expr))
            }
            // Planning refuses ANY, and an escape character that it does not honour.
            Expr::Like { negated: _, any: _, expr, pattern, escape_char: _ }
            | Expr::ILike { negated: _, any: _, expr, pattern, escape_char: _ }
            | Expr::SimilarTo { negated: _, expr, pattern, escape_char: _ } => {
                self.expr(pattern)?;
                Ok(Some(expr))
            }
            // Planning refuses ARRAY and FORMAT behind the type.
            Expr::Cast { kind: _, expr, data_type, array: _, format: _ } => {
                self.cast(expr, data_type)?;
                Ok(Some(expr))
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                self.expr(time_zone)?;
                Ok(Some(timestamp))
            }
            Expr::Position { expr, r#in } => {
                self.expr(r#in)?;
                Ok(Some(expr))
            }
            Expr::Substring { expr, substring_from, substring_for, special: _, shorthand: _ } => {
                self.optional(substring_from)?;
                self.optional(substring_for)?;
                Ok(Some(expr))
            }
            Expr::Trim { trim_where: _, trim_what, expr, trim_characters } => {
                self.optional(trim_what)?;
                self.trim_characters(trim_characters.as_deref_mut().unwrap_or_default())?;
                Ok(Some(expr))
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                self.expr(overlay_what)?;
                self.expr(overlay_from)?;
                self.optional(overlay_for)?;
                Ok(Some(expr))
            }
            Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.optional(operand)?;
                conditions.iter_mut().try_for_each(|case| self.case_when(case))?;
                self.optional(else_result).map(|()| None)
            }
            Expr::TypedString(text) => self.typed_string(text).map(|()| None),
            Expr::Function(function) => self.function(function).map(|()| None),
            Expr::Exists { subquery, negated: _ } | Expr::Subquery(subquery) => {
                self.inner_query(subquery).map(|()| None)
            }
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                self.expr_lists(sets).map(|()| None)
            }
            Expr::Tuple(exprs) | Expr::Array(Array { elem: exprs, named: _ }) => {
                self.exprs(exprs).map(|()| None)
            }
            Expr::Struct { values, fields } => {
                fields.iter_mut().try_for_each(|field| self.struct_field(field))?;
                self.exprs(values).map(|()| None)
            }
            Expr::Dictionary(fields) => {
                fields.iter_mut().try_for_each(|DictionaryField { key: _, value }| self.expr(value))?;
                Ok(None)
            }
            Expr::Map(Map { entries }) => {
                entries.iter_mut().try_for_each(|entry| self.map_entry(entry))?;
                Ok(None)
            }
            Expr::Interval(interval) => self.interval(interval).map(|()| None),
            Expr::Lambda(lambda) => self.lambda(lambda).map(|()| None),
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(_, _)
            // Planning refuses those.
            | Expr::IsNormalized { expr: _, form: _, negated: _ }
            | Expr::InUnnest { expr: _, array_expr: _, negated: _ }
            | Expr::RLike { negated: _, expr: _, pattern: _, regexp: _ }
            | Expr::Convert {
                is_try: _,
                expr: _,
                data_type: _,
                charset: _,
                target_before_value: _,
                styles: _,
            }
            | Expr::Collate { expr: _, collation: _ }
            | Expr::Prefixed { prefix: _, value: _ }
            | Expr::MatchAgainst { columns: _, match_value: _, opt_search_modifier: _ }
            | Expr::OuterJoin(_)
            | Expr::Prior(_)
            | Expr::MemberOf(MemberOf { value: _, array: _ }) => Ok(None),
        }
    }

    fn case_when(&mut self, case: &mut CaseWhen) -> Result<()> {
        let CaseWhen { condition, result } = case;
        self.expr(condition)?;
        self.expr(result)
    }

    fn map_entry(&mut self, entry: &mut MapEntry) -> Result<()> {
        let MapEntry { key, value } = entry;
        self.expr(key)?;
        self.expr(value)
    }

    fn lambda(&mut self, lambda: &mut LambdaFunction) -> Result<()> {
        let LambdaFunction { params, body, syntax: _ } = lambda;
        for LambdaFunctionParameter { name: _, data_type } in params.as_ref() {
            absent(data_type, Clause::LambdaTypes)?;
        }
        self.expr(body)
    }

    /// Walks what is to be trimmed: planning takes the first.
    fn trim_characters(&mut self, characters: &mut [Expr]) -> Result<()> {
        match characters.get(1) {
            Some(second) => Err(Clause::TrimCharacters.error_at(second)),
            None => self.exprs(characters),
        }
    }

    fn typed_string(&mut self, text: &mut TypedString) -> Result<()> {
        let TypedString { data_type, value, uses_odbc_syntax: _ } = text;
        if is_interval(data_type) && is_bare_number(&value.value) {
            return Err(Clause::IntervalUnit.error_at(value));
        }
        self.data_type(data_type)
    }

    fn cast(&mut self, expr: &Expr, data_type: &mut DataType) -> Result<()> {
        if is_interval(data_type) {
            refuse_bare_number(expr)?;
        }
        self.data_type(data_type)
    }

    fn access(&mut self, access: &mut AccessExpr) -> Result<()> {
        match access {
            AccessExpr::Dot(expr) => self.expr(expr),
            AccessExpr::Subscript(Subscript::Index { index }) => self.expr(index),
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
                [lower_bound, upper_bound, stride]
                    .into_iter()
                    .flatten()
                    .try_for_each(|bound| self.expr(bound))
            }
        }
    }

    pub(super) fn struct_field(&mut self, field: &mut StructField) -> Result<()> {
        let StructField { field_name: _, field_type, options } = field;
        absent(options, Clause::FieldOptions)?;
        self.data_type(field_type)
    }

    fn interval(&mut self, interval: &mut Interval) -> Result<()> {
        let Interval {
            value,
            leading_field,
            // Planning refuses those.
            leading_precision: _,
            last_field: _,
            fractional_seconds_precision: _,
        } = interval;
        if leading_field.is_none() {
            refuse_bare_number(value)?;
        }
        self.expr(value)
    }
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval { fields: _, precision: _ })
}

/// Refuses a number that is to be an interval: of what, nobody knows.
fn refuse_bare_number(expr: &Expr) -> Result<()> {
    match expr {
        Expr::Value(value) if is_bare_number(&value.value) => Err(Clause::IntervalUnit.error_at(value)),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } | Expr::Nested(expr) => {
            refuse_bare_number(expr)
        }
        Expr::BinaryOp { left, op: _, right } => {
            refuse_bare_number(left)?;
            refuse_bare_number(right)
        }
        _ => Ok(()),
    }
}

fn is_bare_number(value: &Value) -> bool {
    match value {
        Value::Number(_, _) => true,
        Value::SingleQuotedString(text) => {
            text.contains(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | ' '))
                && text.trim().parse::<f64>().is_ok()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_no_interval() {
        for text in ["3", "-47.21", " 1 "] {
            assert!(is_bare_number(&Value::SingleQuotedString(text.to_owned())), "{text}");
        }
        for text in ["3 days", "10:30", "1-2", "P1D", "", "-"] {
            assert!(!is_bare_number(&Value::SingleQuotedString(text.to_owned())), "{text}");
        }
        assert!(!is_bare_number(&Value::Null));
    }
}
