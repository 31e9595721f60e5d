use bytes::BytesMut;

/// One change of an owner's state, as the journal keeps it.
///
/// After a restart the state is an empty one with the records of the last snapshot and those behind it applied in order. A
/// record may be applied to a state that has its effect already: applying it again changes nothing more.
pub trait Record: Sized + Send + 'static {
    /// The kind of server that the records belong to: stands in each file, and a journal of another kind is refused. At most
    /// [`KIND_BYTES_MAX`] bytes.
    const KIND: &'static str;

    /// The version of what [`encode`](Self::encode) writes: stands in each file, and a higher one is refused.
    const LAYOUT_VERSION: u32;

    /// The most bytes of an encoded record; the owner's own limits keep its records below it.
    const BYTES_MAX: usize = 1 << 20;

    /// Appends its encoding.
    fn encode(&self, dst: &mut BytesMut);

    /// The record that was encoded, by this layout version or an earlier one; `None` for one that this program does not know.
    /// The bytes are as they were written: they have a checksum.
    fn decode(layout_version: u32, bytes: &[u8]) -> Option<Self>;
}

/// The most bytes of a [`Record::KIND`].
pub const KIND_BYTES_MAX: usize = 64;
