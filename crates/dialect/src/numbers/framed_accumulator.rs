//! Accumulators of DataFusion's of which one thing is done otherwise.

use std::borrow::Cow;
use std::fmt;
use std::mem::size_of_val;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// Room that is kept until this is dropped.
pub type Room<'a> = Box<dyn Send + 'a>;

/// The things that are done otherwise around an accumulator of DataFusion's. Everything else is its own: see [`Framed`].
pub trait Frame: fmt::Debug + Send + Sync + 'static {
    /// Rows as the accumulator takes them.
    fn given<'a>(&self, values: &'a [ArrayRef]) -> Result<Cow<'a, [ArrayRef]>> {
        Ok(Cow::Borrowed(values))
    }

    /// Room that a step needs beside the accumulator, for as long as the result lives.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the process has less.
    fn room(&self, _: Step) -> Result<Option<Room<'_>>> {
        Ok(None)
    }

    /// The result of a whole column, or of the frame of a window.
    fn value(&self, accumulator: &mut dyn Accumulator) -> Result<ScalarValue> {
        accumulator.evaluate()
    }

    /// The results of groups.
    fn values(&self, accumulator: &mut dyn GroupsAccumulator, emit_to: EmitTo) -> Result<ArrayRef> {
        accumulator.evaluate(emit_to)
    }

    /// The bytes to charge for an accumulator that holds so many.
    fn charged(&self, held: usize) -> usize {
        held
    }
}

/// A step of an accumulator that may need room.
pub enum Step<'a> {
    /// It takes rows or states in.
    Take(&'a [ArrayRef]),
    /// It hands its state or result out.
    HandOut,
}

/// An accumulator of DataFusion's within a frame: a `Box<dyn Accumulator>`, or a `Box<dyn GroupsAccumulator>`.
pub struct Framed<F, A> {
    /// What is done otherwise.
    pub frame: F,
    /// All else.
    pub accumulator: A,
}

impl<F: Frame, A> fmt::Debug for Framed<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Framed").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl<F: Frame> Accumulator for Framed<F, Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let _room = self.frame.room(Step::Take(values))?;
        self.accumulator.update_batch(&self.frame.given(values)?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let _room = self.frame.room(Step::Take(states))?;
        self.accumulator.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.accumulator.retract_batch(&self.frame.given(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.accumulator.supports_retract_batch()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let _room = self.frame.room(Step::HandOut)?;
        self.accumulator.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let _room = self.frame.room(Step::HandOut)?;
        self.frame.value(self.accumulator.as_mut())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.frame.charged(self.accumulator.size())
    }
}

impl<F: Frame> GroupsAccumulator for Framed<F, Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        let _room = self.frame.room(Step::Take(values))?;
        self.accumulator.update_batch(&self.frame.given(values)?, groups, filter, groups_total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], groups_total: usize) -> Result<()> {
        let _room = self.frame.room(Step::Take(states))?;
        self.accumulator.merge_batch(states, groups, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let _room = self.frame.room(Step::HandOut)?;
        self.frame.values(self.accumulator.as_mut(), emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let _room = self.frame.room(Step::HandOut)?;
        self.accumulator.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.accumulator.convert_to_state(&self.frame.given(values)?, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.frame.charged(self.accumulator.size())
    }
}

/// The distinct values that an accumulator has collected: those in the lists that are its state.
pub fn collected(accumulator: &mut dyn Accumulator) -> Result<Vec<ArrayRef>> {
    let mut collected = Vec::new();
    for state in accumulator.state()? {
        collected.extend(state.to_array()?.as_list::<i32>().iter().flatten());
    }
    Ok(collected)
}
