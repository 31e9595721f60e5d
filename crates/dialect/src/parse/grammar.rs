//! Grammar of SQL: the parser's generic one with what Spark's and DuckDB's users write besides.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, DropFunction, Expr, FunctionDesc, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::{globs, json_arrows, summaries, variables};

/// The grammar: [`GenericDialect`], with lambdas (`x -> x + 1`), `_` between digits, `a DIV b`, `a GLOB 'b*'`,
/// `LONG`, `DROP MACRO` and `SUMMARIZE`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grammar;

/// Answers questions about the grammar as the generic one does.
macro_rules! as_generic {
    ($($question:ident),* $(,)?) => {
        $(fn $question(&self) -> bool {
            GenericDialect {}.$question()
        })*
    };
}

impl Dialect for Grammar {
    /// The parser asks for the generic dialect by its type in some places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        GenericDialect {}.is_delimited_identifier_start(letter)
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        GenericDialect {}.is_identifier_start(letter)
    }

    fn is_identifier_part(&self, letter: char) -> bool {
        GenericDialect {}.is_identifier_part(letter)
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_long_type_as_bigint(&self) -> bool {
        true
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        globs::precedence(self, parser).or_else(|| json_arrows::precedence(self, parser)).map(Ok)
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(matched) = globs::read(parser, left) {
            return Some(matched);
        }
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        let right = parser.parse_subexpr(self.prec_value(Precedence::MulDivModOp));
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }

    fn parse_statement(&self, parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>> {
        // A macro is a function.
        if parser.parse_keywords(&[Keyword::DROP, Keyword::MACRO]) {
            return Some(dropped_macro(parser));
        }
        summaries::read(parser).or_else(|| variables::read(parser))
    }

    as_generic![
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    ];
}

fn dropped_macro(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let func_desc = vec![FunctionDesc { name, args: None }];
    Ok(Statement::DropFunction(DropFunction { if_exists, func_desc, drop_behavior: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_read() {
        for (written, expected) in [
            ("7 DIV 2 + 1", "7 DIV 2 + 1"),
            ("1 + 7 div (2 + 1) * 3", "1 + 7 DIV (2 + 1) * 3"),
            ("f(l, x -> x + 1)", "f(l, x -> x + 1)"),
            ("f(l, (x, y) -> x < y AND z)", "f(l, (x, y) -> x < y AND z)"),
            ("CAST(1 AS LONG)", "CAST(1 AS BIGINT)"),
        ] {
            let mut parser = Parser::new(&Grammar).try_with_sql(written).unwrap();
            assert_eq!(parser.parse_expr().unwrap().to_string(), expected);
        }
        // It binds as `*` does.
        let mut parser = Parser::new(&Grammar).try_with_sql("7 DIV 2 + 1").unwrap();
        let Expr::BinaryOp { op, .. } = parser.parse_expr().unwrap() else { panic!("an operator") };
        assert_eq!(op, BinaryOperator::Plus);
    }
}
