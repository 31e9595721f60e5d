//! Expressions that mean something else in Spark, in the words of the own grammar: an integer is an INT, `/` has a fraction, `list[0]` is
//! the first element, a join without a condition is one of all pairs.

use std::mem;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, CeilFloorKind, ColumnDef, DataType,
    DateTimeField, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, GroupByExpr,
    GroupByWithModifier, Ident, Join, JoinConstraint, JoinOperator, LimitClause, ObjectName, OrderByExpr,
    OrderByKind, PipeOperator, Query, Select, SelectItem, SetExpr, Statement as Sql, StructField, Subscript,
    TableAlias, TableAliasColumnDef, TableFactor, TimezoneInfo, TrimWhereField, UnaryOperator, Value,
    ValueWithSpan, VisitorMut, WindowFrameBound, WindowSpec, WindowType,
};
use yeoul_base::ErrorKind;

use super::calls::{self, part, values_of};
use super::{
    grouping_ids, interval_casts, lambdas, pipes, quantified_likes, statements, table_functions,
    text_arguments, times,
};
use crate::functions::Expansion;
use crate::functions::spark::instead_of;
use crate::numbers::spark_ceilings::CeilingAt;
use crate::numbers::spark_operators::SparkOperator;
use crate::parse::function_call::function_call;
use crate::parse::visit::walk;
use crate::types::spark_element::ELEMENT;
use crate::types::spark_values::Kind;
use crate::{Dialect, Error, IntegerLiterals, JoinsWithout, Quotients, Result, Subscripts};

/// Writes a statement of Spark's in own words.
///
/// # Errors
/// `Invalid` for what has no meaning here that is Spark's.
pub(in crate::parse) fn translate(
    statement: &mut Statement,
    meaning: &Dialect,
    state: &SessionState,
) -> Result<()> {
    if let Statement::Statement(statement) = statement
        && let Sql::CreateTable(table) = statement.as_mut()
    {
        table.columns.iter_mut().try_for_each(check_column)?;
    }
    if let Statement::Statement(statement) = statement
        && matches!(statement.as_ref(), Sql::Set(_))
    {
        // Its numbers are those of a setting.
        return Ok(());
    }
    match walk(statement, &mut Expressions { state, meaning: *meaning, expansion: Expansion::new(state) }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Gives the type of a new column its own name.
fn check_column(column: &mut ColumnDef) -> Result<()> {
    if matches!(
        column.data_type,
        DataType::Char(_) | DataType::Varchar(_) | DataType::Character(_) | DataType::CharacterVarying(_)
    ) {
        let text = format!("not supported: a column of type {}", column.data_type);
        return Err(
            Error::new(ErrorKind::Invalid, text).with_hint("write STRING: the length is not checked here")
        );
    }
    translate_type(&mut column.data_type);
    Ok(())
}

/// Gives a type its own name.
fn translate_type(kind: &mut DataType) {
    match kind {
        DataType::Binary(None) => *kind = DataType::Bytea,
        DataType::Dec(
            info @ ExactNumberInfo::PrecisionAndScale(..) | info @ ExactNumberInfo::Precision(_),
        ) => {
            *kind = DataType::Decimal(*info);
        }
        DataType::Dec(ExactNumberInfo::None) => {
            *kind = DataType::Decimal(ExactNumberInfo::PrecisionAndScale(10, 0));
        }
        DataType::Decimal(info @ ExactNumberInfo::None) | DataType::Numeric(info @ ExactNumberInfo::None) => {
            *info = ExactNumberInfo::PrecisionAndScale(10, 0)
        }
        // The text of a cast is not cut off.
        DataType::Varchar(_) | DataType::Char(_) => *kind = DataType::String(None),
        DataType::Float(ExactNumberInfo::None) => *kind = DataType::Real,
        DataType::Custom(name, parameters) if parameters.is_empty() => {
            match name.to_string().to_ascii_uppercase().as_str() {
                "BYTE" => *kind = DataType::TinyInt(None),
                "SHORT" => *kind = DataType::SmallInt(None),
                "LONG" => *kind = DataType::BigInt(None),
                _ => {}
            }
        }
        DataType::Map(key, value) => [key, value].into_iter().for_each(|part| translate_type(part)),
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::SquareBracket(element, _),
        ) => {
            translate_type(element);
        }
        DataType::Struct(fields, _) => {
            fields.iter_mut().for_each(|field| translate_type(&mut field.field_type))
        }
        _ => {}
    }
}

/// An integer as an INT, if it is one.
fn typed(expr: &mut Expr) {
    let is_int = match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(text, false), .. }) => text.parse::<i32>().is_ok(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            matches!(inner.as_ref(), Expr::Value(ValueWithSpan { value: Value::Number(text, false), .. }) if text == "2147483648")
        }
        _ => false,
    };
    if is_int {
        let number = Box::new(taken(expr));
        *expr = Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: number,
            data_type: DataType::Int(None),
            array: false,
            format: None,
        };
    }
}

/// `CAST(x AS TIME(n))`: what is finer than so many digits of a second is cut off.
fn time_of_digits(expr: &mut Expr, digits: u64) -> Result<()> {
    let Expr::Cast { data_type, .. } = expr else { return Ok(()) };
    if digits > 6 {
        let error = Error::new(ErrorKind::Invalid, format!("there is no TIME({digits})"));
        return Err(error.with_hint("a TIME has at most six digits of a second"));
    }
    *data_type = DataType::Time(None, TimezoneInfo::None);
    let digits = Expr::value(Value::SingleQuotedString(digits.to_string()));
    *expr = function_call(Ident::new("spark_clock_trunc"), [digits, taken(expr)]);
    Ok(())
}

/// A number as it is written, where it is a place or a count and no value.
pub(super) fn plain(expr: &mut Expr) {
    match expr {
        Expr::Cast { kind: CastKind::DoubleColon, expr: number, data_type: DataType::Int(None), .. }
            if matches!(number.as_ref(), Expr::Value(_)) =>
        {
            *expr = taken(number);
        }
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter_mut().flatten().for_each(plain)
        }
        Expr::Tuple(keys) => keys.iter_mut().for_each(plain),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => plain(inner),
        _ => {}
    }
}

pub(super) fn taken(expr: &mut Expr) -> Expr {
    mem::replace(expr, Expr::value(Value::Null))
}

fn plain_window(window: &mut WindowSpec) {
    let Some(frame) = &mut window.window_frame else { return };
    for bound in std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound) {
        if let WindowFrameBound::Preceding(Some(rows)) | WindowFrameBound::Following(Some(rows)) = bound {
            plain(rows);
        }
    }
}

/// Joins without a condition are those of all pairs.
fn join_all<'a>(joins: impl IntoIterator<Item = &'a mut Join>) {
    for join in joins {
        let constraint = match &mut join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::LeftAnti(constraint) => constraint,
            _ => continue,
        };
        if *constraint == JoinConstraint::None {
            *constraint = JoinConstraint::On(Expr::value(Value::Boolean(true)));
        }
    }
}

/// `struct(a, 1 AS b)` as a call of `named_struct`: a column gives a field its name, and another value is `col` and its place.
pub(super) fn named_struct(values: Vec<Expr>) -> Expr {
    let mut arguments = Vec::with_capacity(2 * values.len());
    for (place, value) in values.into_iter().enumerate() {
        let (name, value) = match value {
            Expr::Named { expr, name } => (name.value, *expr),
            Expr::Identifier(name) => (name.value.clone(), Expr::Identifier(name)),
            Expr::CompoundIdentifier(parts) => {
                let name = parts.last().map(|part| part.value.clone()).unwrap_or_default();
                (name, Expr::CompoundIdentifier(parts))
            }
            value => (format!("col{}", place + 1), value),
        };
        arguments.extend([Expr::value(Value::SingleQuotedString(name)), value]);
    }
    function_call(Ident::new("named_struct"), arguments)
}

/// `(a, 1)` as a value, which is a struct. Beside `IN` and `=`, and among keys, it is a row.
fn struct_of_row(value: &mut Expr) {
    if let Expr::Tuple(values) = value {
        *value = named_struct(mem::take(values));
    }
}

/// `map(k1, v1, k2, v2)` as the map of a list of keys and one of values. `None` for an odd number of arguments, and for none.
fn map_of(arguments: Vec<Expr>) -> Option<Expr> {
    if arguments.is_empty() || arguments.len() % 2 == 1 {
        return None;
    }
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (place, argument) in arguments.into_iter().enumerate() {
        if place % 2 == 0 { keys.push(argument) } else { values.push(argument) }
    }
    let list = |elements| function_call(Ident::new("make_array"), elements);
    Some(function_call(Ident::new("map"), [list(keys), list(values)]))
}

/// Writes `ORDER BY ALL` of values that are listed as an order by their places.
fn order_by_places(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let is_value =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    let number = select.projection.len();
    if !select.projection.iter().all(is_value) {
        return;
    }
    let Some(order) = &mut query.order_by else { return };
    if let OrderByKind::All(options) = order.kind {
        let key = |place: usize| OrderByExpr {
            expr: Expr::value(Value::Number(place.to_string(), false)),
            options,
            with_fill: None,
        };
        order.kind = OrderByKind::Expressions((1..=number).map(key).collect());
    }
}

/// Names the one column of a table, if a statement does not.
fn name_column(alias: &mut Option<TableAlias>, table: &str, column: &str) {
    let new = || TableAlias { explicit: true, name: Ident::new(table), columns: Vec::new(), at: None };
    let alias = alias.get_or_insert_with(new);
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: Ident::new(column), data_type: None });
    }
}

/// The element of a list or map, or the field of a struct.
fn element_of(value: Expr, access: AccessExpr) -> Result<Expr> {
    match access {
        AccessExpr::Subscript(Subscript::Index { index }) => {
            Ok(function_call(Ident::new(ELEMENT), [value, index]))
        }
        AccessExpr::Dot(Expr::Identifier(name)) => {
            let name = Expr::value(Value::SingleQuotedString(name.value));
            Ok(function_call(Ident::new("get_field"), [value, name]))
        }
        other => {
            let text = format!("not supported: {other} behind a value");
            Err(Error::new(ErrorKind::Invalid, text).with_hint("write list[0], map['a'] or struct.a"))
        }
    }
}

struct Expressions<'a> {
    state: &'a SessionState,
    meaning: Dialect,
    expansion: Expansion<'a>,
}

impl Expressions<'_> {
    /// The schema or the zone of the session.
    fn of_session(&self, function: &str) -> String {
        let options = self.state.config_options();
        let (own, of_spark) = statements::SCHEMAS;
        match &options.catalog.default_schema {
            _ if function == "current_timezone" => {
                options.execution.time_zone.clone().unwrap_or_else(|| "UTC".to_owned())
            }
            schema if schema == own => of_spark.to_owned(),
            schema => schema.clone(),
        }
    }

    fn translate(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Value(_) | Expr::UnaryOp { .. } if self.meaning.integers == IntegerLiterals::Int => {
                text_arguments::give_sign(expr);
                typed(expr);
            }
            Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
                [left, right].into_iter().for_each(|side| **side = part(taken(side)));
            }
            Expr::BinaryOp { op, .. } if self.meaning.quotients == Quotients::Double => {
                if let Some(of_spark) = SparkOperator::of(op) {
                    *op = of_spark;
                }
            }
            Expr::Like { .. } | Expr::ILike { .. } => return quantified_likes::write_out(expr),
            Expr::Extract { field, expr: time, .. } => {
                if let Some(own) = calls::extracted(field.to_string().trim_matches('\''), time) {
                    *expr = own;
                }
            }
            Expr::Ceil { expr: value, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                *expr = function_call(Ident::new(CeilingAt::Above.function()), [taken(value)]);
            }
            Expr::Floor { expr: value, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                *expr = function_call(Ident::new(CeilingAt::Below.function()), [taken(value)]);
            }
            Expr::Ceil { expr: value, field: CeilFloorKind::Scale(digit) } => {
                let digit = Expr::Value(digit.clone());
                *expr = calls::rounded_at(CeilingAt::Above, taken(value), digit);
            }
            Expr::Floor { expr: value, field: CeilFloorKind::Scale(digit) } => {
                let digit = Expr::Value(digit.clone());
                *expr = calls::rounded_at(CeilingAt::Below, taken(value), digit);
            }
            Expr::Trim { expr: value, trim_where, trim_what, trim_characters: None } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "spark_ltrim",
                    Some(TrimWhereField::Trailing) => "spark_rtrim",
                    Some(TrimWhereField::Both) | None => "spark_trim",
                };
                let what = trim_what.as_mut().map(|what| taken(what));
                let value = taken(value);
                *expr = function_call(Ident::new(name), [value].into_iter().chain(what));
            }
            Expr::Substring { substring_from: Some(from), .. } => calls::count_from_one(from),
            Expr::Cast {
                kind: CastKind::TryCast | CastKind::SafeCast,
                data_type: DataType::Interval { .. },
                ..
            } => {
                let error = Error::new(ErrorKind::Invalid, "not supported: TRY_CAST to an INTERVAL");
                return Err(error.with_hint("write CAST, which is an error where there is none"));
            }
            Expr::Cast { data_type, expr: value, .. } => {
                translate_type(data_type);
                if let Some(own) = interval_casts::of_cast(value, data_type)? {
                    *expr = own;
                    return Ok(());
                }
                if let DataType::Time(Some(digits), _) = *data_type {
                    return time_of_digits(expr, digits);
                }
                let of = match data_type {
                    DataType::String(_) => Kind::Text,
                    DataType::Timestamp(..) => Kind::Time,
                    _ => return Ok(()),
                };
                **value = function_call(Ident::new(of.name()), [taken(value)]);
            }
            Expr::TypedString(typed) => match typed.data_type {
                DataType::Date => {
                    if let Some(day) = times::special_date(typed) {
                        *expr = day;
                    }
                }
                DataType::Timestamp(_, TimezoneInfo::WithoutTimeZone) => {
                    times::check_zone(&typed.value.to_string())?;
                }
                DataType::Timestamp(..) => {
                    if let Some(instant) = times::instant(typed) {
                        *expr = instant;
                    }
                }
                _ => {}
            },
            Expr::Interval(interval) => plain(&mut interval.value),
            Expr::CompoundFieldAccess { root, access_chain }
                if self.meaning.subscripts == Subscripts::FromZero =>
            {
                let mut value = taken(root);
                struct_of_row(&mut value);
                for access in mem::take(access_chain) {
                    value = element_of(value, access)?;
                }
                *expr = value;
            }
            Expr::Struct { values, fields } => {
                let fields: Vec<StructField> = mem::take(fields);
                if fields.is_empty() {
                    *expr = named_struct(mem::take(values));
                }
            }
            Expr::Lambda(lambda) => {
                struct_of_row(&mut lambda.body);
                lambdas::take_fields(lambda);
            }
            Expr::Function(call) => return self.translate_call(expr_of(call)?, expr),
            _ => {}
        }
        Ok(())
    }

    fn translate_call(&mut self, name: Option<String>, expr: &mut Expr) -> Result<()> {
        let Expr::Function(call) = expr else { return Ok(()) };
        if let Some(WindowType::WindowSpec(window)) = &mut call.over {
            plain_window(window);
        }
        let Some(name) = name else { return Ok(()) };
        text_arguments::give_types(&name, call);
        if name == "mode" {
            calls::take_order(call);
        }
        match name.as_str() {
            "current_database" | "current_schema" | "current_timezone" => {
                *expr = Expr::value(Value::SingleQuotedString(self.of_session(&name)));
            }
            "count" => calls::count_rows(call),
            "struct" => {
                if let Some(values) = values_of(call) {
                    *expr = named_struct(values);
                }
            }
            "map" => {
                let values = values_of(call).and_then(map_of);
                *expr = values.ok_or_else(|| {
                    Error::new(ErrorKind::Invalid, "map() takes keys and values by turns")
                        .with_hint("write map('a', 1, 'b', 2)")
                })?;
            }
            _ => {
                if let Some(instead) = instead_of(&name) {
                    let text = format!("not supported: Spark's function {name}");
                    return Err(
                        Error::new(ErrorKind::Invalid, text).with_hint(format!("write instead: {instead}"))
                    );
                }
                if let Some(own) = calls::own(&name, call)? {
                    *expr = own;
                } else {
                    self.expansion.expand_spark(expr)?;
                }
            }
        }
        Ok(())
    }
}

/// The name of a function, in small letters, if it has one part.
fn expr_of(call: &Function) -> Result<Option<String>> {
    let [part] = call.name.0.as_slice() else { return Ok(None) };
    Ok(part.as_ident().map(|name| name.value.to_ascii_lowercase()))
}

impl VisitorMut for Expressions<'_> {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        table_functions::write_items(select);
        if self.meaning.joins == JoinsWithout::AllPairs {
            select.from.iter_mut().for_each(|tables| join_all(&mut tables.joins));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        table_functions::write_query(factor);
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor
            && self.meaning.joins == JoinsWithout::AllPairs
        {
            join_all(&mut table_with_joins.joins);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::Table { name, alias, args: Some(arguments), .. } = factor {
            for argument in &mut arguments.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument {
                    plain(value);
                }
            }
            if name.to_string().eq_ignore_ascii_case("range") {
                *name = ObjectName::from(vec![Ident::new("range")]);
                name_column(alias, "range", "id");
            }
        }
        if let TableFactor::Table { sample: Some(sample), .. }
        | TableFactor::Derived { sample: Some(sample), .. } = factor
        {
            let sample = match sample {
                datafusion::sql::sqlparser::ast::TableSampleKind::BeforeTableAlias(sample)
                | datafusion::sql::sqlparser::ast::TableSampleKind::AfterTableAlias(sample) => sample,
            };
            if let Some(quantity) = &mut sample.quantity {
                plain(&mut quantity.value);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } = item {
                struct_of_row(value);
            }
        }
        if let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by {
            keys.iter_mut().for_each(plain);
            for modifier in modifiers {
                if let GroupByWithModifier::GroupingSets(sets) = modifier {
                    plain(sets);
                }
            }
        }
        for window in &mut select.named_window {
            if let datafusion::sql::sqlparser::ast::NamedWindowExpr::WindowSpec(window) = &mut window.1 {
                plain_window(window);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        pipes::write_selects(query);
        grouping_ids::name_keys(query);
        if self.meaning.joins == JoinsWithout::AllPairs {
            join_all(query.pipe_operators.iter_mut().filter_map(|operator| match operator {
                PipeOperator::Join(join) => Some(join),
                _ => None,
            }));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            values.rows.iter_mut().flat_map(|row| row.content.iter_mut()).for_each(struct_of_row);
        }
        order_by_places(query);
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            keys.iter_mut().for_each(|key| plain(&mut key.expr));
        }
        for operator in &mut query.pipe_operators {
            match operator {
                PipeOperator::Aggregate { group_by_expr, .. } => {
                    group_by_expr.iter_mut().for_each(|key| plain(&mut key.expr.expr));
                }
                PipeOperator::OrderBy { exprs } => exprs.iter_mut().for_each(|key| plain(&mut key.expr)),
                PipeOperator::Limit { expr, offset } => {
                    plain(expr);
                    offset.iter_mut().for_each(plain);
                }
                _ => {}
            }
        }
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter_mut().for_each(plain);
                offset.iter_mut().for_each(|offset| plain(&mut offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                [offset, limit].into_iter().for_each(plain)
            }
            None => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match self.translate(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
