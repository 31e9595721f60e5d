//! Functions of Spark's that take a lambda and are others of lists: `zip_with(a, b, (x, y) -> …)` transforms a list of pairs,
//! `transform_values(m, (k, v) -> …)` the entries of a map.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens, Value, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::calls::values_of;
use crate::lists::aggregate::AGGREGATE;
use crate::parse::function_call::function_call;
use crate::parse::template;
use crate::parse::visit::{each_expression, walk_in};
use crate::parse::words::{is, words};

/// The word that stands for `exists` before a list: the grammar has another `EXISTS`.
const EXISTS: &str = "spark_exists";

/// Functions that take a lambda, besides those that the table or the engine has.
const NAMES: [&str; 9] = [
    "aggregate",
    "forall",
    "map_filter",
    "map_zip_with",
    "reduce",
    EXISTS,
    "transform_keys",
    "transform_values",
    "zip_with",
];

/// True for a function that takes a lambda, by its name in small letters.
pub(in crate::parse) fn takes_lambda(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Writes `exists(list, x -> …)` by a name that is no word of the grammar.
pub(super) fn rename_exists(tokens: &mut [TokenWithSpan]) {
    let places = words(tokens);
    for (word, place) in places.iter().enumerate() {
        if !is(&tokens[*place].token, Keyword::EXISTS) {
            continue;
        }
        let mut behind = places[word + 1..].iter().map(|place| &tokens[*place].token).peekable();
        if behind.peek() != Some(&&Token::LParen) {
            continue;
        }
        let first = behind.find(|token| **token != Token::LParen);
        let of_query = [Keyword::SELECT, Keyword::WITH, Keyword::FROM, Keyword::VALUES, Keyword::TABLE];
        if first.is_some_and(|first| !of_query.iter().any(|keyword| is(first, *keyword))) {
            tokens[*place].token = Token::make_word(EXISTS, None);
        }
    }
}

/// Writes the fields of a lambda's parameters as such: `acc.sum` is no column of a table.
pub(super) fn take_fields(lambda: &mut LambdaFunction) {
    let names: Vec<String> = names_of(lambda);
    each_expression(lambda.body.as_mut(), &mut |expr| {
        let Expr::CompoundIdentifier(parts) = expr else { return };
        let [first, fields @ ..] = parts.as_slice() else { return };
        if names.contains(&first.value.to_lowercase()) {
            *expr = fields.iter().fold(Expr::Identifier(first.clone()), field_of);
        }
    });
}

/// Expression that a call of such a function stands for; `None` for other functions and other arguments.
pub(super) fn own(name: &str, call: &mut Function) -> Option<Expr> {
    if matches!(name, "transform" | "filter") {
        return with_place(name, call);
    }
    if !takes_lambda(name) {
        return None;
    }
    let mut values = values_of(call)?;
    if matches!(name, "aggregate" | "reduce") {
        for (place, parameters) in [(2, 2), (3, 1)] {
            if let Some(value) = values.get_mut(place) {
                *value = Expr::Lambda(lambda_of(super::expressions::taken(value), parameters));
            }
        }
        return Some(function_call(Ident::new(AGGREGATE), values));
    }
    let parameters = match name {
        EXISTS | "forall" => 1,
        "map_zip_with" => 3,
        _ => 2,
    };
    let mut lambda = lambda_of(values.pop()?, parameters);
    let of = |name: &str, arguments: Vec<Expr>| function_call(Ident::new(name), arguments);
    let transformed =
        |list: Expr, lambda: LambdaFunction| of("array_transform", vec![list, Expr::Lambda(lambda)]);
    match (name, values.as_mut_slice()) {
        (EXISTS, [list]) => Some(of("spark_any", vec![transformed(super::expressions::taken(list), lambda)])),
        ("forall", [list]) => {
            Some(of("spark_all", vec![transformed(super::expressions::taken(list), lambda)]))
        }
        ("zip_with", [left, right]) => {
            take_parts(&mut lambda, &["left", "right"])?;
            let pairs = of("spark_zip", vec![left.clone(), right.clone()]);
            Some(transformed(pairs, lambda))
        }
        ("map_filter", [map]) => {
            take_parts(&mut lambda, &["key", "value"])?;
            let entries = of("map_entries", vec![map.clone()]);
            let kept = of("array_filter", vec![entries, Expr::Lambda(lambda)]);
            Some(of("spark_map_from_entries", vec![kept]))
        }
        ("transform_keys" | "transform_values", [map]) => {
            take_parts(&mut lambda, &["key", "value"])?;
            let entries = of("map_entries", vec![map.clone()]);
            let made = transformed(entries, lambda);
            let same =
                of(if name == "transform_keys" { "map_values" } else { "map_keys" }, vec![map.clone()]);
            let lists = if name == "transform_keys" { vec![made, same] } else { vec![same, made] };
            Some(of("spark_map_from_arrays", lists))
        }
        ("map_zip_with", [left, right]) => {
            take_parts(&mut lambda, &["key", "left", "right"])?;
            let entries = of("spark_zip_maps", vec![left.clone(), right.clone()]);
            let mut keys = template::expr("array_transform(m, e -> get_field(e, 'key'))");
            fill(&mut keys, "m", &entries);
            Some(of("spark_map_from_arrays", vec![keys, transformed(entries, lambda)]))
        }
        _ => None,
    }
}

/// `transform(list, (x, i) -> …)` and `filter(list, (x, i) -> …)`: a lambda that has the place of an element, too. A value in the place of
/// the lambda is that of all elements.
fn with_place(name: &str, call: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut call.args else { return None };
    let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(second))] = list.args.as_mut_slice() else {
        return None;
    };
    match second {
        Expr::Lambda(lambda) if names_of(lambda).len() == 2 => {}
        Expr::Lambda(_) => return None,
        value => {
            *value = Expr::Lambda(lambda_of(super::expressions::taken(value), 1));
            return None;
        }
    }
    let mut values = values_of(call)?;
    let Expr::Lambda(mut lambda) = values.pop()? else { return None };
    let list = values.pop()?;
    take_parts(&mut lambda, &["left", "right"])?;
    let function = if name == "filter" { "array_filter" } else { "array_transform" };
    let mut whole =
        template::expr("spark_zip(l, array_transform(range(spark_size(l)), i -> CAST(i AS INT)))");
    fill(&mut whole, "l", &list);
    let made = function_call(Ident::new(function), [whole, Expr::Lambda(lambda)]);
    if name == "transform" {
        return Some(made);
    }
    let mut kept = template::expr("array_transform(m, e -> get_field(e, 'left'))");
    fill(&mut kept, "m", &made);
    Some(kept)
}

fn fill(template: &mut Expr, name: &str, value: &Expr) {
    each_expression(template, &mut |expr| {
        if matches!(expr, Expr::Identifier(found) if found.value == name && found.quote_style.is_none()) {
            *expr = value.clone();
        }
    });
}

/// A lambda, which a value is for all of its parameters.
fn lambda_of(value: Expr, parameters: usize) -> LambdaFunction {
    match value {
        Expr::Lambda(lambda) => lambda,
        value => {
            let parameter = |place: usize| LambdaFunctionParameter {
                name: Ident::with_quote('"', format!("unused {place}")),
                data_type: None,
            };
            LambdaFunction {
                params: OneOrManyWithParens::Many((0..parameters).map(parameter).collect()),
                body: Box::new(value),
                syntax: LambdaSyntax::Arrow,
            }
        }
    }
}

fn names_of(lambda: &LambdaFunction) -> Vec<String> {
    let name = |parameter: &LambdaFunctionParameter| parameter.name.value.to_lowercase();
    match &lambda.params {
        OneOrManyWithParens::One(parameter) => vec![name(parameter)],
        OneOrManyWithParens::Many(parameters) => parameters.iter().map(name).collect(),
    }
}

fn field_of(value: Expr, field: &Ident) -> Expr {
    let field = Expr::value(Value::SingleQuotedString(field.value.clone()));
    function_call(Ident::new("get_field"), [value, field])
}

/// Gives a lambda one parameter for all of its own, which are the fields of it. `None` if it has another number.
fn take_parts(lambda: &mut LambdaFunction, fields: &[&str]) -> Option<()> {
    let names = names_of(lambda);
    if names.len() != fields.len() {
        return None;
    }
    // No lambda within it has a parameter of this name, unless it hides all of these.
    let one = names.join(" ");
    let parts = names.into_iter().zip(fields).map(|(name, field)| {
        (name, field_of(Expr::Identifier(Ident::with_quote('"', one.clone())), &Ident::new(*field)), 0)
    });
    let mut parts = Parts(parts.collect());
    let ControlFlow::Continue(()) = walk_in(lambda.body.as_mut(), &mut parts);
    let parameter = LambdaFunctionParameter { name: Ident::with_quote('"', one), data_type: None };
    lambda.params = OneOrManyWithParens::One(parameter);
    Some(())
}

/// Names, what stands for each, and how many lambdas around an expression have a parameter of the name.
struct Parts(Vec<(String, Expr, usize)>);

impl Parts {
    fn count(&mut self, lambda: &LambdaFunction, change: fn(usize) -> usize) {
        let hidden = names_of(lambda);
        for (name, _, around) in &mut self.0 {
            if hidden.contains(name) {
                *around = change(*around);
            }
        }
    }
}

impl VisitorMut for Parts {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Lambda(lambda) = expr {
            self.count(lambda, |around| around + 1);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Lambda(lambda) => self.count(lambda, |around| around - 1),
            Expr::Identifier(name) => {
                let name = name.value.to_lowercase();
                if let Some((_, part, _)) = self.0.iter().find(|(of, _, around)| *of == name && *around == 0)
                {
                    *expr = part.clone();
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
