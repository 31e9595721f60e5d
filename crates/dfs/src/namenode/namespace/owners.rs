use std::collections::HashMap;
use std::sync::Arc;

/// Handle of a user's or a group's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(u32);

/// The names of users and groups, each kept once.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    names: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, OwnerId>,
}

impl Owners {
    /// The handle of a name, which is kept from now on.
    pub fn intern(&mut self, name: &str) -> OwnerId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id =
            OwnerId(u32::try_from(self.names.len()).expect("there are fewer than 2^32 users and groups"));
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// A name as it is kept from now on, once.
    pub fn shared(&mut self, name: &str) -> Arc<str> {
        let id = self.intern(name);
        Arc::clone(&self.names[id.0 as usize])
    }

    /// The name behind a handle.
    pub fn name(&self, id: OwnerId) -> &str {
        &self.names[id.0 as usize]
    }
}
