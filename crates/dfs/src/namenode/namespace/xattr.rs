//! Extended attributes: names with values that users and programs put on files and directories.

/// The spaces of names, each with its own rules of who may see and change it, by HDFS's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Namespace {
    /// Whoever may read a file sees these, and whoever may write it changes them.
    User,
    /// The superuser's.
    Trusted,
    /// HDFS's own, of which users may set one.
    Security,
    /// HDFS's own.
    System,
    /// The superuser's, on paths below `/.reserved/raw`.
    Raw,
}

impl Namespace {
    /// All, in the order of their numbers.
    const ALL: [Self; 5] = [Self::User, Self::Trusted, Self::Security, Self::System, Self::Raw];

    /// The space of a number; none for another number.
    pub fn from_wire(number: i32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The number.
    pub fn to_wire(self) -> i32 {
        self as i32
    }

    /// The word with which messages name it.
    pub fn word(self) -> &'static str {
        ["USER", "TRUSTED", "SECURITY", "SYSTEM", "RAW"][self as usize]
    }
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XAttr {
    /// The space of its name.
    pub namespace: Namespace,
    /// Its name in that.
    pub name: Box<str>,
    /// Its value; none is not the same as an empty one.
    pub value: Option<Box<[u8]>>,
}

impl XAttr {
    /// Bytes of its name and value, which a limit is on.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.as_ref().map_or(0, |value| value.len())
    }

    /// The name with its space, as people write it.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.namespace.word().to_ascii_lowercase(), self.name)
    }

    /// True for another one of the same name, whatever its value is.
    pub fn is_named_as(&self, other: &Self) -> bool {
        (self.namespace, &self.name) == (other.namespace, &other.name)
    }
}
