//! Plans on the wire: what DataFusion and Ballista write of them, and what they do not know or would lose.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::config::CsvOptions;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::execution::{FunctionRegistry, SessionState, TaskContext};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use datafusion_proto::physical_plan::from_proto::parse_physical_expr;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr;
use datafusion_proto::physical_plan::{
    AsExecutionPlan, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode};
use datafusion_proto_common::protobuf_common;
use prost::Message;
use yeoul_base::ErrorKind;
use yeoul_dialect::{Error, sent};
use yeoul_sql::distributed::{self, TextKind, TextScan};

use crate::exchanges;
use crate::limits::PART_LEVELS_MAX;
use crate::parts::{PartExec, in_parts};
use crate::shuffle::NumberedExec;
use crate::whole::WholeExec;

/// Version of this module's messages. Each of them begins with it, so that a process of another version refuses them by name.
const VERSION: &str = concat!("yeoul ", env!("CARGO_PKG_VERSION"), ", plans 4");

/// The words of the error for a message with more levels than are read.
const TOO_DEEP: &str = "RecursionLimitReached";

/// The codec of physical plans, for clients, schedulers and executors of one version.
#[derive(Clone, Debug)]
pub struct PlanCodec {
    ballista: Arc<BallistaPhysicalExtensionCodec>,
    /// The functions that SQL names. A process finds them by their names, and all others are written out.
    named: Arc<SessionState>,
    /// Levels of parts that it still reads.
    part_levels: usize,
}

/// An operator that DataFusion cannot write.
#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(oneof = "Kind", tags = "2, 3, 4, 5, 6, 7, 8")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    /// One of Ballista's.
    #[prost(bytes, tag = "2")]
    Ballista(Vec<u8>),
    #[prost(message, tag = "3")]
    TextScan(TextScanNode),
    #[prost(message, tag = "4")]
    Hiding(HidingNode),
    #[prost(message, tag = "5")]
    Exchange(ExchangeNode),
    #[prost(message, tag = "6")]
    Whole(WholeNode),
    #[prost(message, tag = "7")]
    Numbered(NumberedNode),
    /// The message of a part of the plan.
    #[prost(bytes, tag = "8")]
    Part(Vec<u8>),
}

/// One of Ballista's exchanges that hashes more than columns.
#[derive(Clone, PartialEq, Message)]
struct ExchangeNode {
    /// The exchange, hashing something else.
    #[prost(bytes = "vec", tag = "1")]
    ballista: Vec<u8>,
    /// Expressions that it hashes.
    #[prost(message, repeated, tag = "2")]
    by: Vec<PhysicalExprNode>,
}

#[derive(Clone, PartialEq, Message)]
struct HidingNode {
    /// What it hides.
    #[prost(string, tag = "1")]
    hidden: String,
}

#[derive(Clone, PartialEq, Message)]
struct WholeNode {}

#[derive(Clone, PartialEq, Message)]
struct NumberedNode {}

#[derive(Clone, PartialEq, Message)]
struct TextScanNode {
    #[prost(bytes = "vec", tag = "1")]
    plain: Vec<u8>,
    /// `CsvOptions` of DataFusion; JSON without.
    #[prost(bytes = "vec", optional, tag = "2")]
    csv: Option<Vec<u8>>,
    #[prost(string, tag = "3")]
    compression: String,
    #[prost(uint64, tag = "4")]
    batch_rows: u64,
    #[prost(uint64, tag = "5")]
    skipped_lines: u64,
}

impl PlanCodec {
    /// The codec with the functions that SQL names in sessions of a cluster.
    ///
    /// # Errors
    /// Those of the registry of functions.
    pub fn new() -> yeoul_dialect::Result<Self> {
        let named = distributed::planning_state(distributed::planning_config()?)?;
        Ok(Self { ballista: Arc::default(), named: Arc::new(named), part_levels: PART_LEVELS_MAX })
    }

    /// Writes a plan, and gives it as it arrives, which is as it is: DataFusion's messages lack some of what its plans have.
    ///
    /// # Errors
    /// `Invalid` for a plan that cannot be sent.
    pub fn write(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: &TaskContext,
    ) -> Result<(Vec<u8>, Arc<dyn ExecutionPlan>)> {
        let written = self.message(in_parts(plan)?)?;
        let read =
            self.read(&written, context).map_err(|error| match error.to_string().contains(TOO_DEEP) {
                true => {
                    let text = "too many operators, one below the other, cannot be sent to a cluster";
                    let hint = "a CREATE TABLE of a query in the middle makes the rest a query of its own";
                    Error::new(ErrorKind::Invalid, text).with_hint(hint).into()
                }
                false => error,
            })?;
        let Some((left, arrives)) = difference(plan, &read, false) else { return Ok((written, read)) };
        let what = format!("the plan cannot be sent to a cluster: '{left}' would arrive as '{arrives}'");
        Err(Error::new(ErrorKind::Invalid, what).into())
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// For bytes that are none, and those of another version.
    pub fn read(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        PhysicalPlanNode::try_decode(bytes)?.try_into_physical_plan(context, self)
    }

    /// The codec of what is a level of parts below.
    fn below(&self) -> Result<Self> {
        let part_levels = self.part_levels.checked_sub(1).ok_or_else(too_deep)?;
        Ok(Self { part_levels, ..self.clone() })
    }

    fn message(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
        Ok(PhysicalPlanNode::try_from_physical_plan(plan, self)?.encode_to_vec())
    }

    fn ballistas(
        &self,
        node: Arc<dyn ExecutionPlan>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Vec<u8>> {
        let (name, mut bytes) = (node.name().to_owned(), Vec::new());
        let written = self.ballista.try_encode(node, &mut bytes, converter);
        written.map_err(|error| not_sent(&format!("the operator {name}"), Some(error)))?;
        Ok(bytes)
    }

    fn text_scan(&self, scan: TextScan) -> Result<TextScanNode> {
        let plain = self.message(scan.plain)?;
        let csv = match scan.kind {
            TextKind::Csv(options) => {
                Some(protobuf_common::CsvOptions::try_from(options.as_ref())?.encode_to_vec())
            }
            TextKind::Json => None,
        };
        let compression = scan.compression.get_variant().to_string();
        let (batch_rows, skipped_lines) = (scan.batch_rows as u64, scan.skipped_lines as u64);
        Ok(TextScanNode { plain, csv, compression, batch_rows, skipped_lines })
    }

    fn text_scan_of(&self, node: &TextScanNode, context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        let kind = match &node.csv {
            Some(options) => {
                let options = protobuf_common::CsvOptions::decode(options.as_slice()).map_err(unreadable)?;
                TextKind::Csv(Box::new(CsvOptions::try_from(&options)?))
            }
            None => TextKind::Json,
        };
        let compression: FileCompressionType = node.compression.parse()?;
        let batch_rows = usize::try_from(node.batch_rows).map_err(unreadable)?;
        let skipped_lines = usize::try_from(node.skipped_lines).map_err(unreadable)?;
        let plain = self.read(&node.plain, context)?;
        let scan = TextScan { plain, kind, compression, batch_rows, skipped_lines };
        let scan = scan.within(&context.runtime_env(), context.session_config());
        scan.ok_or_else(|| unreadable("a scan of text that reads no files"))
    }
}

impl PhysicalExtensionCodec for PlanCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = Node::decode(bytes).map_err(unreadable)?;
        if node.version != VERSION {
            let text = format!("this is {VERSION}, and the plan is of {:?}", node.version);
            let error = Error::new(ErrorKind::Invalid, text);
            return Err(error
                .with_hint("clients, schedulers and executors of a cluster are of one version")
                .into());
        }
        match node.kind {
            Some(Kind::Ballista(bytes)) => self.ballista.try_decode(&bytes, inputs, context, converter),
            Some(Kind::TextScan(scan)) => self.text_scan_of(&scan, context),
            Some(Kind::Exchange(ExchangeNode { ballista, by })) => {
                let node = self.ballista.try_decode(&ballista, inputs, context, converter)?;
                let hashed = inputs.first().map_or_else(|| node.schema(), |input| input.schema());
                let read = |by| parse_physical_expr(by, context, &hashed, self);
                let by = by.iter().map(read).collect::<Result<Vec<_>>>()?;
                let by = Partitioning::Hash(by, node.output_partitioning().partition_count());
                exchanges::divided(&node, by)?.ok_or_else(|| unreadable("an exchange that is none"))
            }
            Some(Kind::Hiding(HidingNode { hidden })) => sent::hiding(side_of(inputs)?, &hidden),
            Some(Kind::Whole(WholeNode {})) => Ok(Arc::new(WholeExec::new(side_of(inputs)?))),
            Some(Kind::Numbered(NumberedNode {})) => Ok(Arc::new(NumberedExec::of(inputs.to_vec())?)),
            Some(Kind::Part(bytes)) => self.below()?.read(&bytes, context),
            None => Err(unreadable("an operator without a kind")),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let kind = if let Some(scan) = TextScan::of(&node) {
            Kind::TextScan(self.text_scan(scan)?)
        } else if let Some(hidden) = sent::hidden_text(node.as_ref()) {
            Kind::Hiding(HidingNode { hidden })
        } else if node.is::<WholeExec>() {
            Kind::Whole(WholeNode {})
        } else if node.is::<NumberedExec>() {
            Kind::Numbered(NumberedNode {})
        } else if let Some(part) = node.downcast_ref::<PartExec>() {
            Kind::Part(self.message(Arc::clone(part.plan()))?)
        } else if let Some(reader) = exchanges::without_lost_hash(&node)? {
            Kind::Ballista(self.ballistas(reader, converter)?)
        } else if let Some(by) = exchanges::hashed(node.as_ref()) {
            let written = by.iter().map(|by| serialize_physical_expr(by, self));
            let by = written.collect::<Result<Vec<_>>>()?;
            let plain: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Null));
            let plain = Partitioning::Hash(vec![plain], node.output_partitioning().partition_count());
            let plain = exchanges::divided(&node, plain)?.expect("it is an exchange");
            Kind::Exchange(ExchangeNode { ballista: self.ballistas(plain, converter)?, by })
        } else {
            Kind::Ballista(self.ballistas(node, converter)?)
        };
        let node = Node { version: VERSION.to_owned(), kind: Some(kind) };
        node.encode(bytes).map_err(unreadable)
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if self.named.udf(function.name()).is_ok_and(|named| *named == *function) {
            return Ok(());
        }
        let text = sent::scalar_text(function).or_else(|| distributed::scalar_text(function));
        let text = text.ok_or_else(|| not_sent(&format!("the function {}", function.name()), None))?;
        bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        if bytes.is_empty() {
            return self.named.udf(name);
        }
        let text = std::str::from_utf8(bytes).map_err(unreadable)?;
        match distributed::scalar(text) {
            Some(function) => Ok(Arc::new(function)),
            None => Ok(Arc::new(sent::scalar(text)?)),
        }
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if self.named.udaf(function.name()).is_ok_and(|named| *named == *function) {
            return Ok(());
        }
        let text = sent::aggregate_text(function);
        let text = text.ok_or_else(|| not_sent(&format!("the function {}", function.name()), None))?;
        bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        if bytes.is_empty() {
            return self.named.udaf(name);
        }
        let text = std::str::from_utf8(bytes).map_err(unreadable)?;
        sent::aggregate(text, &|name| self.named.udaf(name))
    }

    fn try_encode_higher_order_function(&self, function: &HigherOrderUDF, _: &mut Vec<u8>) -> Result<()> {
        Err(not_sent(&format!("the function {}", function.name()), None))
    }
}

/// The only input of an operator that stands on one side of a join.
fn side_of(inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    match inputs {
        [input] => Ok(Arc::clone(input)),
        _ => Err(unreadable("a side of a join that is not one")),
    }
}

/// Texts of the first two operators that differ.
fn difference(
    left: &Arc<dyn ExecutionPlan>,
    arrives: &Arc<dyn ExecutionPlan>,
    is_of_union: bool,
) -> Option<(String, String)> {
    let said = (shown(left), shown(arrives));
    if said.0 != said.1 {
        // A union that is made anew names the columns of its inputs alike.
        return match arrives.downcast_ref::<ProjectionExec>() {
            Some(named) if is_of_union => difference(left, named.input(), false),
            _ => Some(said),
        };
    }
    let (lefts, arrivals) = (left.children(), arrives.children());
    if lefts.len() != arrivals.len() {
        return Some(said);
    }
    let is_of_union = left.is::<UnionExec>() || left.is::<InterleaveExec>();
    lefts.iter().zip(arrivals).find_map(|(left, arrives)| difference(left, arrives, is_of_union))
}

/// All that an operator tells of itself, but for what only makes a scan faster, and which columns it takes to be without nulls: a plan that
/// is made anew finds that out anew, and may know it better.
fn shown(node: &Arc<dyn ExecutionPlan>) -> String {
    let shown = displayable(node.as_ref()).set_show_schema(true).one_line().to_string();
    let shown = match shown.trim().rsplit_once(", schema=[") {
        Some((before, schema)) => format!("{before}, schema=[{}", schema.replace(";N", "")),
        None => shown.trim().to_owned(),
    };
    // Known of rows that were generated in order; executors sort where an order is relied on (`orders`).
    let shown = shown.replace(", maintains_sort_order=true", "");
    // Order in which a scan might take its row groups.
    match shown.split_once(", sort_order_for_reorder=[") {
        Some((before, behind)) => {
            format!("{before}{}", behind.split_once(']').map_or("", |(_, rest)| rest))
        }
        None => shown,
    }
}

fn not_sent(what: &str, cause: Option<DataFusionError>) -> DataFusionError {
    let error = Error::new(ErrorKind::Invalid, format!("{what} cannot be sent to a cluster"));
    match cause {
        Some(cause) => error.with_source(cause).into(),
        None => error.into(),
    }
}

fn too_deep() -> DataFusionError {
    let text = "too many operators, one below the other, cannot be sent to a cluster";
    let hint = "a CREATE TABLE of a query in the middle makes the rest a query of its own";
    Error::new(ErrorKind::Invalid, text).with_hint(hint).into()
}

fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DataFusionError {
    Error::new(ErrorKind::Invalid, "a plan on the wire cannot be read").with_source(error).into()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::limit::GlobalLimitExec;
    use datafusion::prelude::SessionContext;
    use yeoul_sql::STACK_BYTES;

    use super::*;

    /// Operators in a message that is as deep as one may be.
    const OPERATORS: usize = 47;

    #[test]
    fn a_plan_is_read_up_to_a_depth() {
        let reader = std::thread::Builder::new().stack_size(STACK_BYTES);
        reader.spawn(read_up_to_a_depth).unwrap().join().unwrap();
    }

    fn read_up_to_a_depth() {
        let (codec, context) = (PlanCodec::new().unwrap(), SessionContext::new().task_ctx());
        let part = |rows, operators| {
            let rows = (0..operators).fold(rows, |rows, _| {
                Arc::new(GlobalLimitExec::new(rows, 1, None)) as Arc<dyn ExecutionPlan>
            });
            Arc::new(CoalescePartitionsExec::new(rows)) as Arc<dyn ExecutionPlan>
        };
        let deep = |levels, operators| {
            let rows: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
            (0..levels).fold(rows, |rows, _| part(rows, operators))
        };
        codec.write(&deep(PART_LEVELS_MAX, OPERATORS), &context).unwrap();
        for too_deep in [deep(PART_LEVELS_MAX + 1, 0), deep(1, OPERATORS + 5)] {
            let error = codec.write(&too_deep, &context).unwrap_err();
            assert!(error.to_string().contains("too many operators"), "{error}");
        }
    }
}
