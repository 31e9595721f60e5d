use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};

use crate::functions::macros::Macros;
use crate::functions::variables::{GetVariable, Variables};
use crate::names::cast_names::CastNames;
use crate::notices::Notices;
use crate::numbers::spark_operators::{FloatOperator, SparkFloat, SparkOperators};
use crate::refuse::Questions;
use crate::rewrite::PhysicalRule;
use crate::rules::Step;
use crate::settings::{Settings, SparkSettings, System};
use crate::syntax::Statement;
use crate::syntax::tokenizer::TokenWithSpan;
use crate::time::clock_functions::ClockFunction;
use crate::time::date_arithmetic::DateArithmetic;
use crate::time::interval_literals::IntervalLiteral;
use crate::time::interval_units::IntervalUnits;
use crate::time::parse_functions::ParseByPattern;
use crate::time::spark_intervals::SparkInterval;
use crate::time::spark_moments::SparkMoment;
use crate::time::spark_zones::SparkZone;
use crate::time::time_units::InUnits;
use crate::time::{
    calendar_functions, date_format, strftime_functions, time_functions, time_series, time_zone,
};
use crate::types::map_types::MapTypes;
use crate::types::spark_assertions::Assertion;
use crate::types::spark_element::SparkElement;
use crate::types::spark_hashes::HashOf;
use crate::types::spark_values::SparkValue;
use crate::types::type_name::TypeOf;
use crate::types::{list_functions, substr};
use crate::{Result, aggregates, json, lists, names, numbers, parse, plan, refuse, rules, sketches, text};

/// Place of nulls in `ORDER BY` where a statement names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NullOrder {
    /// The last ones in both directions. PostgreSQL and DuckDB have them last in ascending order, Spark and DuckDB in descending order.
    #[default]
    Last,
    /// The least of all values: first in ascending order, last in descending order, as in Spark.
    Least,
}

/// Letters of names that are written without quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameCase {
    /// Lower case, whatever is written, as in PostgreSQL.
    #[default]
    Lower,
    /// As they are written: fields of JSON and Kafka are told apart by case, as in Flink.
    AsWritten,
    /// Without regard to case: those of a table's columns, else lower case, as in Spark.
    AnyCase,
}

/// Spelling of texts, names and numbers, and the words of statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// Names in double quotes, texts in single ones, as in PostgreSQL and DuckDB.
    #[default]
    Own,
    /// Names in backquotes, texts in either quotes with escapes, numbers with suffixes, as in Spark.
    Spark,
}

/// Type of an integer that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntegerLiterals {
    /// A BIGINT.
    #[default]
    BigInt,
    /// An INT if it fits, as in Spark.
    Int,
}

/// Quotient of two integers by `/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quotients {
    /// An integer, as in PostgreSQL.
    #[default]
    Whole,
    /// A DOUBLE, as in Spark.
    Double,
}

/// Place of the first element in `list[…]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subscripts {
    /// `list[1]`, as in PostgreSQL and DuckDB.
    #[default]
    FromOne,
    /// `list[0]`, as in Spark. There is an error where there is no element.
    FromZero,
}

/// A join without a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinsWithout {
    /// An error.
    #[default]
    Refused,
    /// One of all pairs, as in Spark.
    AllPairs,
}

/// Names of functions and types that two systems give different meanings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FunctionNames {
    /// The own ones.
    #[default]
    Own,
    /// Those of Spark.
    Spark,
}

/// The meaning of SQL to one front: the switches in which two fronts mean different systems on purpose. All else has one meaning.
///
/// The methods are the steps of a statement, in their order: [`read`](Self::read), [`honour`](Self::honour), [`plan`](Self::plan).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// Place of nulls in an order.
    pub nulls: NullOrder,
    /// Letters of names.
    pub names: NameCase,
    /// Spelling of texts, names and numbers.
    pub spelling: Spelling,
    /// Type of integers that are written.
    pub integers: IntegerLiterals,
    /// Quotient of integers.
    pub quotients: Quotients,
    /// Place of the first element of a list.
    pub subscripts: Subscripts,
    /// Joins without a condition.
    pub joins: JoinsWithout,
    /// Names of functions and types.
    pub functions: FunctionNames,
}

impl Dialect {
    /// That of `yeoul sql`.
    pub const OWN: Self = Self {
        nulls: NullOrder::Last,
        names: NameCase::Lower,
        spelling: Spelling::Own,
        integers: IntegerLiterals::BigInt,
        quotients: Quotients::Whole,
        subscripts: Subscripts::FromOne,
        joins: JoinsWithout::Refused,
        functions: FunctionNames::Own,
    };
    /// That of `yeoul stream`.
    pub const STREAM: Self = Self { nulls: NullOrder::Least, names: NameCase::AsWritten, ..Self::OWN };
    /// That of `yeoul sql --dialect spark`.
    pub const SPARK: Self = Self {
        nulls: NullOrder::Least,
        names: NameCase::AnyCase,
        spelling: Spelling::Spark,
        integers: IntegerLiterals::Int,
        quotients: Quotients::Double,
        subscripts: Subscripts::FromZero,
        joins: JoinsWithout::AllPairs,
        functions: FunctionNames::Spark,
    };

    /// The dialect of the system that a session has chosen.
    pub fn of_session(config: &ConfigOptions) -> Self {
        match System::of(config) {
            System::Own => Self::OWN,
            System::Spark => Self::SPARK,
        }
    }

    /// Settings that follow from the meaning of SQL, not from how fast or in how much memory it is computed.
    pub fn configure(&self, engine: &mut ConfigOptions) {
        engine.extensions.insert(Settings::default());
        // Lets errors point at their place in the text.
        engine.sql_parser.collect_spans = true;
        // A number with a point is a decimal; one with an exponent is a DOUBLE, see `parse::doubles`.
        engine.sql_parser.parse_float_as_decimal = true;
        // DataFusion checks that an aggregate's input may be null where the plan says so, and refuses `DISTINCT x IS TRUE`, which never
        // is: the operator that it makes of it may be.
        engine.execution.skip_physical_aggregate_schema_check = true;
        self.configure_reading(engine);
        // Without a zone of the session, TIMESTAMPTZ and now() would have none either.
        engine.execution.time_zone = Some("UTC".to_owned());
    }

    /// Settings that follow from the switches alone: those that change when a session chooses another system.
    pub fn configure_reading(&self, engine: &mut ConfigOptions) {
        let nulls = match self.nulls {
            NullOrder::Last => "nulls_last",
            NullOrder::Least => "nulls_min",
        };
        engine.sql_parser.default_null_ordering = nulls.to_owned();
        engine.sql_parser.enable_ident_normalization = self.names != NameCase::AsWritten;
        if self.functions == FunctionNames::Spark {
            engine.extensions.insert(SparkSettings::default());
        }
    }

    /// A state in which statements have this meaning. `builder` has what the engine brings: its configuration, which
    /// [`configure`](Self::configure) began, the runtime, the catalog; `engine` places its own rules among the physical ones here.
    ///
    /// What is built from the state anew may have DataFusion's functions in the places of these.
    ///
    /// # Errors
    /// Those of the registry of functions.
    pub fn session_state(
        &self,
        builder: SessionStateBuilder,
        engine: &[Step<PhysicalRule>],
    ) -> Result<SessionState> {
        let mut state = builder.build();
        let config = state.config_mut();
        let variables = Arc::new(Variables::default());
        let extended = std::mem::take(config).with_extension(Arc::new(Macros::default()));
        let extended = extended.with_extension(Arc::new(Notices::default()));
        *config = extended.with_extension(Arc::clone(&variables));
        // Its operators become those of the planners behind it.
        state.register_expr_planner(Arc::new(SparkOperators))?;
        state.register_expr_planner(Arc::new(CastNames))?;
        state.register_expr_planner(Arc::new(DateArithmetic))?;
        numbers::register(&mut state)?;
        list_functions::register(&mut state)?;
        time_functions::register(&mut state)?;
        time_series::register(&mut state);
        strftime_functions::register(&mut state)?;
        calendar_functions::register(&mut state)?;
        text::register(&mut state)?;
        json::register(&mut state)?;
        lists::register(&mut state)?;
        aggregates::register(&mut state)?;
        sketches::register(&mut state)?;
        state.register_udf(Arc::new(TypeOf::default().into()))?;
        let of_times = ParseByPattern::all()
            .into_iter()
            .chain(InUnits::all())
            .chain(ClockFunction::all())
            .chain(SparkMoment::all())
            .chain(IntervalUnits::all());
        for function in of_times {
            state.register_udf(function)?;
        }
        state.register_udf(IntervalLiteral::shared())?;
        state.register_udf(Arc::new(SparkZone.into()))?;
        for function in SparkElement::all() {
            state.register_udf(function)?;
        }
        for function in SparkInterval::all() {
            state.register_udf(Arc::new(function))?;
        }
        state.register_udf(SparkFloat::shared(FloatOperator::Quotient))?;
        state.register_udf(SparkFloat::shared(FloatOperator::Remainder))?;
        state.register_udf(Arc::new(Assertion.into()))?;
        for function in HashOf::all() {
            state.register_udf(function)?;
        }
        for function in SparkValue::all() {
            state.register_udf(function)?;
        }
        state.register_udf(Arc::new(GetVariable::of(variables).into()))?;
        let state = rules::with_rules(state, engine);
        // The first planner that plans an expression is the only one.
        let mut planners: Vec<Arc<dyn ExprPlanner>> =
            vec![Arc::new(substr::SubstringPlanner), Arc::new(list_functions::Appends::of(&state)?)];
        planners.extend(state.expr_planners().iter().cloned());
        let mut state = SessionStateBuilder::new_from_existing(state)
            .with_expr_planners(planners)
            .with_type_planner(Arc::new(MapTypes))
            .build();
        let time_zone = time_zone::TimeZoneFunction::new(state.config_options());
        let functions: [Arc<ScalarUDF>; 3] =
            [substr::Substr::shared(), Arc::new(date_format::DateFormat.into()), Arc::new(time_zone.into())];
        for function in functions {
            state.register_udf(function)?;
        }
        Ok(state)
    }

    /// Reads one statement.
    ///
    /// # Errors
    /// `Invalid`, with the place, for text that is not SQL, and for what systems disagree about.
    pub fn read(&self, sql: &str, state: &SessionState) -> Result<Statement> {
        Notices::begin(state);
        parse::read(sql, self, state)
    }

    /// Reads one statement of tokens, for a front whose texts have statements of its own around those of SQL.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_tokens(&self, tokens: Vec<TokenWithSpan>, state: &SessionState) -> Result<Statement> {
        parse::read_tokens(tokens, self, state)
    }

    /// Honours or refuses each clause of a statement. The questions are those that only planning can decide.
    ///
    /// # Errors
    /// `Invalid` for a clause that is not honoured, with its name and what to write instead.
    pub fn honour(&self, statement: &mut Statement, state: &SessionState) -> Result<Questions> {
        if !state.config_options().sql_parser.enable_ident_normalization {
            names::as_written::quote_names(statement);
        }
        parse::translate(statement, self, state)?;
        parse::call_functions(statement, state)?;
        refuse::honour(statement, state)
    }

    /// Plans a statement.
    ///
    /// # Errors
    /// Of the statement as it is written: `Invalid`, or `NotFound` for what it names.
    pub async fn plan(
        &self,
        mut statement: Statement,
        questions: Questions,
        state: &mut SessionState,
    ) -> Result<LogicalPlan> {
        if self.names == NameCase::AnyCase {
            names::any_case::name_columns(&mut statement, state).await?;
            names::session_variables::name_values(&mut statement, state).await;
        }
        plan::planned(statement, questions, state).await
    }
}
