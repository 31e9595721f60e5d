//! The inner joins of a part of a plan as a graph: relations, and what their rows have to fulfil together.

use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::interior::{Interior, is_key_type};
use super::relation_set::RelationSet;
use crate::optimizer::safe_conditions::is_safe;

/// A graph of inner joins. Its columns are those of all relations, one relation's after the other's; in the expressions of the graph, the
/// index of a [`Column`] is its place among them.
#[derive(Debug)]
pub(super) struct JoinGraph {
    pub(super) relations: Vec<Relation>,
    pub(super) columns: Vec<GraphColumn>,
    pub(super) classes: Vec<KeyClass>,
    pub(super) predicates: Vec<Predicate>,
    /// The columns that the joins give.
    pub(super) output: Vec<Arc<dyn PhysicalExpr>>,
    /// The order in which the statement has the joins.
    pub(super) written: JoinTree,
}

/// A plan whose rows are joined, or tested against.
#[derive(Debug)]
pub(super) struct Relation {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The place of its first column.
    pub(super) start: usize,
    /// Test of the rows of others against it; `None` if its rows are joined with theirs.
    pub(super) test: Option<ExistenceTest>,
}

/// A column of a relation.
#[derive(Debug)]
pub(super) struct GraphColumn {
    pub(super) relation: usize,
    pub(super) field: FieldRef,
}

/// A semi or anti join: rows of other relations stay if the tested relation has one that fits them, or if it has none.
#[derive(Debug)]
pub(super) struct ExistenceTest {
    pub(super) is_anti: bool,
    /// Expressions that are equal: of the other relations, and of the tested one.
    pub(super) keys: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    pub(super) condition: Option<Arc<dyn PhysicalExpr>>,
    pub(super) nulls: NullEquality,
    /// The other relations, which have to be joined before.
    pub(super) needs: RelationSet,
}

/// Columns that are equal to each other, each of another relation.
#[derive(Debug)]
pub(super) struct KeyClass {
    pub(super) columns: Vec<usize>,
    pub(super) relations: RelationSet,
}

/// A condition that is no part of a class.
#[derive(Debug)]
pub(super) struct Predicate {
    pub(super) condition: Arc<dyn PhysicalExpr>,
    /// The relations that have to be joined where it is asked.
    pub(super) needs: RelationSet,
    /// True if it may fail, for rows that another condition drops.
    pub(super) may_fail: bool,
    /// The two sides of an equality, each with its relations.
    pub(super) sides: Option<[(Arc<dyn PhysicalExpr>, RelationSet); 2]>,
}

/// An order of joins.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JoinTree {
    Relation(usize),
    Join(Box<(JoinTree, JoinTree)>),
}

impl JoinTree {
    pub(super) fn join(left: Self, right: Self) -> Self {
        Self::Join(Box::new((left, right)))
    }

    pub(super) fn relations(&self) -> RelationSet {
        match self {
            Self::Relation(relation) => RelationSet::of(*relation),
            Self::Join(sides) => sides.0.relations() | sides.1.relations(),
        }
    }
}

impl JoinGraph {
    /// The graph of the joins at and below `plan`; `None` if there are too many.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn collect(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let mut graph = Self {
            relations: Vec::new(),
            columns: Vec::new(),
            classes: Vec::new(),
            predicates: Vec::new(),
            output: Vec::new(),
            written: JoinTree::Relation(0),
        };
        let Some(part) = graph.add(plan)? else { return Ok(None) };
        graph.output = part.output;
        graph.written = part.tree;
        Ok(Some(graph))
    }

    /// The relations whose columns an expression has.
    pub(super) fn relations_of(&self, expr: &Arc<dyn PhysicalExpr>) -> RelationSet {
        columns_of(expr).into_iter().map(|column| self.columns[column].relation).collect()
    }

    /// A schema in which each column has its place in the graph.
    fn schema(&self) -> Schema {
        Schema::new(self.columns.iter().map(|column| Arc::clone(&column.field)).collect::<Vec<_>>())
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Part>> {
        let Some(interior) = Interior::of(plan) else { return Ok(self.add_relation(plan, None)) };
        let mut parts = Vec::new();
        for input in interior.inputs() {
            let Some(part) = self.add(input)? else { return Ok(None) };
            parts.push(part);
        }
        let part = parts.remove(0);
        Ok(match interior {
            Interior::Keyed(join) => {
                let right = parts.remove(0);
                for (one, other) in join.on() {
                    let (one, other) = (replaced(one, &part.output)?, replaced(other, &right.output)?);
                    self.add_equality(one, other);
                }
                let joined = self.joined(part, right, join.filter())?;
                Some(joined.projected(join.projection.as_deref()))
            }
            Interior::Test(join, is_of_left) => self.add_test(join, is_of_left, part)?,
            Interior::Conditional(join) => {
                let joined = self.joined(part, parts.remove(0), join.filter())?;
                Some(joined.projected(join.projection().as_deref()))
            }
            Interior::Cross(_) => Some(self.joined(part, parts.remove(0), None)?),
            Interior::Filter(filter) => {
                self.add_condition(&replaced(filter.predicate(), &part.output)?, part.relations);
                Some(part.projected(filter.projection().as_deref()))
            }
            Interior::Projection(projection) => {
                let columns = projection.expr().iter().map(|column| replaced(&column.expr, &part.output));
                let output = columns.collect::<Result<_>>()?;
                Some(Part { output, ..part })
            }
        })
    }

    /// Two parts joined, and the condition of their join.
    fn joined(&mut self, left: Part, right: Part, filter: Option<&JoinFilter>) -> Result<Part> {
        let condition = filter.map(|filter| of_sides(filter, &left.output, &right.output)).transpose()?;
        let mut output = left.output;
        output.extend(right.output);
        let relations = left.relations | right.relations;
        if let Some(condition) = condition {
            self.add_condition(&condition, relations);
        }
        Ok(Part { output, tree: JoinTree::join(left.tree, right.tree), relations })
    }

    fn add_relation(&mut self, plan: &Arc<dyn ExecutionPlan>, test: Option<ExistenceTest>) -> Option<Part> {
        let relation = self.relations.len();
        if relation == RelationSet::RELATIONS_MAX {
            return None;
        }
        let start = self.columns.len();
        let schema = plan.schema();
        self.columns
            .extend(schema.fields().iter().map(|field| GraphColumn { relation, field: Arc::clone(field) }));
        let output =
            schema.fields().iter().enumerate().map(|(place, field)| column(field.name(), start + place));
        self.relations.push(Relation { plan: Arc::clone(plan), start, test });
        let relations = RelationSet::of(relation);
        Some(Part { output: output.collect(), tree: JoinTree::Relation(relation), relations })
    }

    fn add_test(&mut self, join: &HashJoinExec, is_of_left: bool, kept: Part) -> Result<Option<Part>> {
        let tested = if is_of_left { join.right() } else { join.left() };
        let Some(part) = self.add_relation(tested, None) else { return Ok(None) };
        let mut keys = Vec::new();
        for (left, right) in join.on() {
            let (of_kept, of_tested) = if is_of_left { (left, right) } else { (right, left) };
            keys.push((replaced(of_kept, &kept.output)?, replaced(of_tested, &part.output)?));
        }
        let mut needs =
            keys.iter().map(|(key, _)| self.relations_of(key)).fold(RelationSet::EMPTY, |a, b| a | b);
        let mut condition = None;
        if let Some(filter) = join.filter() {
            let (left, right) =
                if is_of_left { (&kept.output, &part.output) } else { (&part.output, &kept.output) };
            let filter = of_sides(filter, left, right)?;
            needs |= if is_safe(&filter, &self.schema()) {
                self.relations_of(&filter).without(part.relations)
            } else {
                kept.relations
            };
            condition = Some(filter);
        }
        // One that names no other relation says yes or no to all rows: it stays where it is.
        if needs.is_empty() {
            needs = kept.relations;
        }
        let is_anti = matches!(join.join_type(), JoinType::LeftAnti | JoinType::RightAnti);
        let test = ExistenceTest { is_anti, keys, condition, nulls: join.null_equality(), needs };
        if let Some(relation) = self.relations.last_mut() {
            relation.test = Some(test);
        }
        let joined = Part {
            output: kept.output,
            tree: JoinTree::join(kept.tree, part.tree),
            relations: kept.relations | part.relations,
        };
        Ok(Some(joined.projected(join.projection.as_deref())))
    }

    /// Adds that two expressions are equal.
    fn add_equality(&mut self, one: Arc<dyn PhysicalExpr>, other: Arc<dyn PhysicalExpr>) {
        if let (Some(left), Some(right)) = (one.downcast_ref::<Column>(), other.downcast_ref::<Column>())
            && self.unite(left.index(), right.index())
        {
            return;
        }
        let sides = [self.relations_of(&one), self.relations_of(&other)];
        let condition = BinaryExpr::new(Arc::clone(&one), Operator::Eq, Arc::clone(&other));
        self.predicates.push(Predicate {
            condition: Arc::new(condition),
            needs: sides[0] | sides[1],
            may_fail: false,
            sides: Some([(one, sides[0]), (other, sides[1])]),
        });
    }

    /// Makes two columns one class; false if these would be two columns of one relation, or are of different types.
    fn unite(&mut self, left: usize, right: usize) -> bool {
        let data_type = |column: usize| self.columns[column].field.data_type();
        if data_type(left) != data_type(right) || !is_key_type(data_type(left)) {
            return false;
        }
        let (one, other) = (self.class_of(left), self.class_of(right));
        if one == other {
            return true;
        }
        if self.classes[one].relations.overlaps(self.classes[other].relations) {
            return false;
        }
        let absorbed = self.classes.remove(one.max(other));
        let class = &mut self.classes[one.min(other)];
        class.columns.extend(absorbed.columns);
        class.columns.sort_unstable();
        class.relations |= absorbed.relations;
        true
    }

    /// The place of the class of a column, which is its only one if it equals no other.
    fn class_of(&mut self, column: usize) -> usize {
        let place = self.classes.iter().position(|class| class.columns.contains(&column));
        place.unwrap_or_else(|| {
            let relations = RelationSet::of(self.columns[column].relation);
            self.classes.push(KeyClass { columns: vec![column], relations });
            self.classes.len() - 1
        })
    }

    /// Adds a condition that was asked where `scope` was joined. What may fail is asked where all of that is joined.
    fn add_condition(&mut self, condition: &Arc<dyn PhysicalExpr>, scope: RelationSet) {
        let schema = self.schema();
        for part in split_conjunction(condition) {
            if let Some(binary) = part.downcast_ref::<BinaryExpr>()
                && *binary.op() == Operator::Eq
                && binary.left().is::<Column>()
                && binary.right().is::<Column>()
                && self.relations_of(binary.left()) != self.relations_of(binary.right())
                && binary.left().data_type(&schema).is_ok_and(|data_type| is_key_type(&data_type))
            {
                self.add_equality(Arc::clone(binary.left()), Arc::clone(binary.right()));
                continue;
            }
            let may_fail = !is_safe(part, &schema);
            let needs = if may_fail { scope } else { self.relations_of(part) };
            self.predicates.push(Predicate { condition: Arc::clone(part), needs, may_fail, sides: None });
        }
    }
}

/// The part of a graph that an operator and those below it are.
struct Part {
    output: Vec<Arc<dyn PhysicalExpr>>,
    tree: JoinTree,
    relations: RelationSet,
}

impl Part {
    fn projected(self, projection: Option<&[usize]>) -> Self {
        let Some(places) = projection else { return self };
        let output = places.iter().map(|place| Arc::clone(&self.output[*place])).collect();
        Self { output, ..self }
    }
}

/// The column of a graph.
pub(super) fn column(name: &str, place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(name, place))
}

/// The places of the columns of an expression, in order.
pub(super) fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut columns = Vec::new();
    let walked = expr.apply(|node| {
        columns.extend(node.downcast_ref::<Column>().map(Column::index));
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok(), "nothing fails");
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// An expression with what its columns stand for.
pub(super) fn replaced(
    expr: &Arc<dyn PhysicalExpr>,
    columns: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |node: Arc<dyn PhysicalExpr>| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::clone(&columns[column.index()])),
            None => Transformed::no(node),
        })
    };
    Arc::clone(expr).transform_up(replace).data()
}

/// The condition of a join of sides with these columns.
fn of_sides(
    filter: &JoinFilter,
    left: &[Arc<dyn PhysicalExpr>],
    right: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>> {
    let columns = filter.column_indices().iter().map(|column| {
        let side = if column.side == JoinSide::Right { right } else { left };
        Arc::clone(&side[column.index])
    });
    replaced(filter.expression(), &columns.collect::<Vec<_>>())
}
