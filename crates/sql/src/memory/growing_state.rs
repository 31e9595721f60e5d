use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use yeoul_base::ByteSize;
use yeoul_memory::ProcessMemory;

use yeoul_dialect::framed_accumulator::{Frame, Framed, Room, Step};

/// Functions whose accumulators keep something of every row, or of every distinct value.
const GROWING: [&str; 12] = [
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_agg",
    "entropy",
    "histogram",
    "median",
    "mode",
    "nth_value",
    "percentile_cont",
    "string_agg",
];
/// Functions of which that is true with `DISTINCT`.
const GROWING_IF_DISTINCT: [&str; 3] = ["avg", "count", "sum"];
/// Functions whose accumulators of groups keep a text and what it is ordered by of each group, in vectors that are copied when they are
/// full: what they hold is charged as if it grew with the rows.
const GROWING_WITH_GROUPS: [&str; 2] = ["first_value", "last_value"];

/// How many bytes are charged for each that the accumulators of groups hold: they are handed out in one piece, of which there is then a
/// copy here, one on its way to the next operator and one that it makes. One that holds too much spills.
const CHARGED_COPIES: usize = 5;
/// How many times a state is in memory while it is handed out: itself, the positions or lists that its values are gathered by, and the
/// values gathered.
const COPIES_WHEN_TAKEN: usize = 3;
/// Below this many bytes nobody asks whether the process has room: of small states there are as many as groups.
const CLAIM_MIN: usize = 256 << 10;

/// An aggregate function whose accumulators are charged with what handing their state out takes, too, and stop a query before the
/// process has no room for that.
///
/// DataFusion reserves the size of accumulators, after they have grown; what it makes of them at the end, it does not.
pub(crate) struct GrowingState {
    stock: Arc<AggregateUDF>,
    process: Arc<ProcessMemory>,
}

impl GrowingState {
    /// Puts these functions in place of those of a session whose process has a memory limit.
    ///
    /// # Errors
    /// Those of the registry.
    pub(crate) fn register(state: &mut SessionState, process: &Arc<ProcessMemory>) -> Result<()> {
        for name in GROWING.iter().chain(&GROWING_IF_DISTINCT).chain(&GROWING_WITH_GROUPS) {
            let stock = state.udaf(name)?;
            state.register_udaf(Self::around(stock, process))?;
        }
        Ok(())
    }

    /// Whether the state of a call grows with the rows.
    pub(crate) fn is_called_by(call: &AggregateFunctionExpr) -> bool {
        let function = call.fun().inner().downcast_ref::<Self>();
        function.is_some_and(|function| function.grows(call.is_distinct()))
    }

    fn around(stock: Arc<AggregateUDF>, process: &Arc<ProcessMemory>) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Self { stock, process: Arc::clone(process) }))
    }

    fn grows(&self, is_distinct: bool) -> bool {
        is_distinct || GROWING.contains(&self.stock.name())
    }

    fn charged<A>(&self, accumulator: A, copies: Copies) -> Framed<Charge, A> {
        let frame = Charge {
            function: self.stock.name().to_owned(),
            process: Arc::clone(&self.process),
            copies,
            held: AtomicUsize::new(0),
        };
        Framed { frame, accumulator }
    }
}

impl fmt::Debug for GrowingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GrowingState").field(&self.stock).finish()
    }
}

/// Two of one session are the same function if what they stand for is.
impl PartialEq for GrowingState {
    fn eq(&self, other: &Self) -> bool {
        self.stock == other.stock
    }
}

impl Eq for GrowingState {}

impl Hash for GrowingState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stock.hash(state);
    }
}

impl AggregateUDFImpl for GrowingState {
    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let grows = self.grows(args.is_distinct);
        // Groups have others then, and this one is for a whole column. It cannot spill: what it holds is charged as it is.
        let is_alone = self.stock.groups_accumulator_supported(args.clone());
        let state = self.stock.accumulator(args)?;
        let copies = Copies::of_one(if is_alone { 1 } else { CHARGED_COPIES });
        Ok(if grows { Box::new(self.charged(state, copies)) } else { state })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let grows = self.grows(args.is_distinct);
        let state = self.stock.create_sliding_accumulator(args)?;
        Ok(if grows { Box::new(self.charged(state, Copies::of_one(1))) } else { state })
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let grows = self.grows(args.is_distinct) || GROWING_WITH_GROUPS.contains(&self.stock.name());
        let state = self.stock.create_groups_accumulator(args)?;
        Ok(if grows { Box::new(self.charged(state, Copies::OF_GROUPS)) } else { state })
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_satisfied: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let stock = Arc::clone(self.stock.inner()).with_beneficial_ordering(is_satisfied)?;
        Ok(stock.map(|stock| {
            let stock = Arc::new(AggregateUDF::new_from_shared_impl(stock));
            Arc::new(Self { stock, process: Arc::clone(&self.process) }) as _
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.stock.reverse_udf() {
            ReversedUDAF::Reversed(stock) => ReversedUDAF::Reversed(Self::around(stock, &self.process)),
            other => other,
        }
    }

    // The rest is the function's own.

    fn name(&self) -> &str {
        self.stock.name()
    }

    fn aliases(&self) -> &[String] {
        self.stock.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.stock.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.stock.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.stock.return_type(kinds)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.stock.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.stock.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.stock.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.stock.groups_accumulator_supported(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.stock.order_sensitivity()
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.stock.simplify()
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        self.stock.coerce_types(kinds)
    }

    fn is_descending(&self) -> Option<bool> {
        self.stock.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.stock.value_from_stats(args)
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.stock.default_value(kind)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.stock.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.stock.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.stock.inner().set_monotonicity(kind)
    }
}

/// How many copies of its state an accumulator makes.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// Those that are charged from the beginning, the state itself among them.
    charged: usize,
    /// Those for which there must be room while it takes rows in.
    taking: usize,
    /// Those for which there must be room while it is handed out.
    handing_out: usize,
}

impl Copies {
    /// Groups grow one by one.
    const OF_GROUPS: Self = Self { charged: CHARGED_COPIES, taking: 0, handing_out: COPIES_WHEN_TAKEN - 1 };

    /// Those of one state. A vector that is full is copied into one of twice its size.
    fn of_one(charged: usize) -> Self {
        Self { charged, taking: 1, handing_out: 1 }
    }
}

/// What makes the size of an accumulator include the copies of its state that are made when it is handed out, and asks for room for them.
struct Charge {
    function: String,
    process: Arc<ProcessMemory>,
    copies: Copies,
    /// The bytes that it held when it was asked last: after each batch.
    held: AtomicUsize,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").field("function", &self.function).finish_non_exhaustive()
    }
}

/// The bytes by which a state may grow while it takes these arrays in.
fn bytes_of(arrays: &[ArrayRef]) -> usize {
    arrays.iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

impl Frame for Charge {
    fn room(&self, step: Step) -> Result<Option<Room<'_>>> {
        let (copies, more) = match step {
            Step::Take(arrays) => (self.copies.taking, bytes_of(arrays)),
            Step::HandOut => (self.copies.handing_out, 0),
        };
        let held = self.held.load(Ordering::Relaxed);
        let bytes = held.saturating_mul(copies).saturating_add(more);
        if bytes < CLAIM_MIN {
            return Ok(None);
        }
        self.process.claim(bytes).map(|claim| Some(Box::new(claim) as Room)).map_err(|free| {
            let size = |bytes: usize| ByteSize::from_bytes(bytes as u64);
            DataFusionError::ResourcesExhausted(format!(
                "{}(…) holds {} and needs {} more, but the process has only {} left under its limit",
                self.function,
                size(held),
                size(bytes),
                size(free),
            ))
        })
    }

    fn charged(&self, held: usize) -> usize {
        self.held.store(held, Ordering::Relaxed);
        held.saturating_mul(self.copies.charged)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::functions_aggregate::all_default_aggregate_functions;

    use super::*;

    /// Those whose state is as large for a million rows as for one, but for texts and lists, of which they keep one or two.
    const CONSTANT: [&str; 30] = [
        "any_value",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "corr",
        "count",
        "covar_pop",
        "covar_samp",
        "first_value",
        "grouping",
        "last_value",
        "max",
        "min",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "stddev",
        "stddev_pop",
        "sum",
        "var",
        "var_pop",
    ];

    #[test]
    fn every_function_of_the_library_is_known_to_grow_or_not() {
        for function in all_default_aggregate_functions() {
            let name = function.name();
            let known = GROWING.contains(&name) != CONSTANT.contains(&name);
            assert!(known, "{name}: does its state grow with the rows?");
        }
    }

    #[test]
    fn a_session_with_a_limit_has_charged_functions_of_the_same_names() {
        let builder = SessionStateBuilder::new().with_default_features();
        let mut state = yeoul_dialect::Dialect::OWN.session_state(builder, &[]).unwrap();
        GrowingState::register(&mut state, &ProcessMemory::watch(None).unwrap()).unwrap();
        for name in GROWING.iter().chain(&GROWING_IF_DISTINCT) {
            let function = state.udaf(name).unwrap();
            assert!(function.inner().is::<GrowingState>() && function.name() == *name, "{name}");
        }
    }

    /// An accumulator that keeps a byte for each of its rows.
    #[derive(Debug)]
    struct Bytes(usize);

    impl Accumulator for Bytes {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            self.0 += values[0].len();
            Ok(())
        }

        fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
            self.update_batch(states)
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(vec![self.evaluate()?])
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::from(self.0 as u64))
        }

        fn size(&self) -> usize {
            self.0
        }
    }

    fn charged(promise: Option<usize>) -> Framed<Charge, Box<dyn Accumulator>> {
        let process = ProcessMemory::watch(promise).unwrap();
        let copies = Copies::of_one(CHARGED_COPIES);
        let frame = Charge { function: "median".to_owned(), process, copies, held: AtomicUsize::new(0) };
        Framed { frame, accumulator: Box::new(Bytes(0)) }
    }

    fn rows(count: usize) -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from_iter_values(0..count as i64))]
    }

    #[test]
    fn a_state_is_charged_with_its_copy() {
        let mut state = charged(None);
        let empty = state.size();
        state.update_batch(&rows(1000)).unwrap();
        assert_eq!(state.size() - empty, 1000 * CHARGED_COPIES);
        assert_eq!(state.evaluate().unwrap(), ScalarValue::from(1000u64));
    }

    #[test]
    fn a_process_that_is_full_gives_room_to_small_states_only() {
        // Any process is larger.
        let mut state = charged(Some(1 << 20));
        state.update_batch(&rows(1000)).unwrap();
        let error = state.update_batch(&rows(CLAIM_MIN / 8)).unwrap_err();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)));
        assert!(error.to_string().contains("median(…) holds "), "{error}");
        state.accumulator = Box::new(Bytes(CLAIM_MIN));
        state.size();
        assert!(state.evaluate().is_err());
        assert!(state.frame.process.wanted() > CLAIM_MIN);
    }

    #[test]
    fn claims_of_others_are_no_room() {
        let process = ProcessMemory::watch(Some(1 << 40)).unwrap();
        let first = process.claim(1 << 39).unwrap();
        assert!(process.claim(1 << 39).is_err());
        drop(first);
        process.claim(1 << 39).unwrap();
    }
}
