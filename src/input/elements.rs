//! Cuts the wanted elements out of nested JSON, without building a tree. O(bytes); memory for one element.
//!
//! A function decides for each list and object by its path whether to look into it, to hand it out or to skip it. Damaged
//! JSON is not detected here but by the reader of the element.

/// What to do with a list or object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Look at its members.
    Enter,
    /// Hand it out.
    Take,
    /// Skip it.
    Skip,
}

/// One step of a path: the key of a member, or the index of an element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Key {
    name: Vec<u8>,
    /// The index in a list, from zero; zero in an object.
    pub(crate) index: u64,
}

impl Key {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.name
    }
}

/// Gets the path of an element, its text and its byte offset.
type Each<'a> = &'a mut dyn FnMut(&[Key], &[u8], u64);

/// Longer elements are skipped and counted.
const MAX_ELEMENT_BYTES: usize = 64 << 20;
/// A longer key cannot be one that a reader looks for.
const MAX_KEY_BYTES: usize = 256;
/// Deeper nesting is skipped.
const MAX_LEVELS: usize = 16;

/// The splitter.
#[derive(Debug)]
pub(crate) struct ElementSplitter {
    action: fn(&[Key]) -> Action,
    /// The entered lists and objects, outermost first: true for a list.
    lists: Vec<bool>,
    /// One key per entered list or object below the top one, and the current one.
    path: Vec<Key>,
    state: State,
    element: Vec<u8>,
    element_at: u64,
    at: u64,
    too_long: u64,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between members of an entered list or object.
    Between,
    /// In a string between members: a key or a value.
    Text { is_escaped: bool },
    /// In a list or object that is handed out or skipped.
    Inside { depth: u32, is_taken: bool, is_text: bool, is_escaped: bool },
}

impl ElementSplitter {
    pub(crate) fn new(action: fn(&[Key]) -> Action) -> Self {
        Self {
            action,
            lists: Vec::new(),
            path: Vec::new(),
            state: State::Between,
            element: Vec::new(),
            element_at: 0,
            at: 0,
            too_long: 0,
            is_closed: false,
        }
    }

    /// The number of elements that were too long.
    pub(crate) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Returns the length of the text if it ends before its last bracket is closed.
    pub(crate) fn open_at_end(&self) -> Option<u64> {
        (!self.is_closed).then_some(self.at)
    }

    /// Takes the next bytes. `each` gets the path of an element, its text and its byte offset.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: Each<'_>) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.is_closed {
                return;
            }
            match self.state {
                State::Inside { depth, is_taken, is_text, is_escaped } => {
                    let read = self.inside(rest, (depth, is_taken, is_text, is_escaped), each);
                    rest = rest.get(read..).unwrap_or_default();
                    self.at += read as u64;
                    continue;
                }
                State::Text { is_escaped } => self.text(byte, is_escaped),
                State::Between => self.between(byte),
            }
            self.at += 1;
            rest = after;
        }
    }

    fn text(&mut self, byte: u8, is_escaped: bool) {
        if byte == b'"' && !is_escaped {
            self.state = State::Between;
            return;
        }
        self.state = State::Text { is_escaped: byte == b'\\' && !is_escaped };
        if let Some(key) = self.path.last_mut()
            && key.name.len() < MAX_KEY_BYTES
        {
            key.name.push(byte);
        }
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.state = State::Text { is_escaped: false };
                // A value in text replaces the key, which is no longer needed.
                if self.lists.last() == Some(&false)
                    && let Some(key) = self.path.last_mut()
                {
                    key.name.clear();
                }
            }
            b',' => {
                if let Some(key) = self.path.last_mut() {
                    key.name.clear();
                    key.index += u64::from(self.lists.last() == Some(&true));
                }
            }
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => {
                self.lists.pop();
                self.path.pop();
                self.is_closed = self.lists.is_empty();
            }
            _ => {}
        }
    }

    fn open(&mut self, byte: u8) {
        let action = match self.lists.len() {
            0 => Action::Enter,
            MAX_LEVELS.. => Action::Skip,
            _ => (self.action)(&self.path),
        };
        match action {
            Action::Enter => {
                self.lists.push(byte == b'[');
                self.path.push(Key::default());
            }
            Action::Take | Action::Skip => {
                let is_taken = action == Action::Take;
                self.element.clear();
                self.element_at = self.at;
                if is_taken {
                    self.element.push(byte);
                }
                self.state = State::Inside { depth: 1, is_taken, is_text: false, is_escaped: false };
            }
        }
    }

    /// Reads to the end of the element or of the bytes; returns the number of bytes read.
    fn inside(
        &mut self,
        bytes: &[u8],
        (mut depth, is_taken, mut is_text, mut is_escaped): (u32, bool, bool, bool),
        each: Each<'_>,
    ) -> usize {
        let mut read = bytes.len();
        for (index, byte) in bytes.iter().enumerate() {
            if is_text {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' => is_escaped = true,
                    b'"' => is_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => is_text = true,
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        read = index + 1;
                        break;
                    }
                }
                _ => {}
            }
        }
        let part = bytes.get(..read).unwrap_or_default();
        if is_taken && self.element.len() <= MAX_ELEMENT_BYTES {
            self.element.extend_from_slice(part);
        }
        if depth > 0 {
            self.state = State::Inside { depth, is_taken, is_text, is_escaped };
            return read;
        }
        self.state = State::Between;
        if self.element.len() > MAX_ELEMENT_BYTES {
            self.too_long += 1;
        } else if is_taken {
            each(&self.path, &self.element, self.element_at);
        }
        read
    }
}
