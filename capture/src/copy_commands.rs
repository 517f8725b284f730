//! The commands that copy traces from the machine or container of a server.

use std::path::Path;

/// Where the traces are and where they are wanted.
pub(crate) struct Copy<'a> {
    pub(crate) host: &'a str,
    /// Whether the server's address is one of this machine, so that it can only be in a container.
    pub(crate) is_local: bool,
    pub(crate) server_folder: &'a str,
    /// A word in the names of the files, if the server was told one.
    pub(crate) file_word: Option<&'a str>,
    pub(crate) to: &'a Path,
}

impl Copy<'_> {
    /// One command per kind of machine, with a comment.
    pub(crate) fn commands(&self) -> Vec<String> {
        let (folder, to) = (self.server_folder.trim_end_matches('/'), quoted(&self.to.display().to_string()));
        let names = self.file_word.map_or_else(|| "*.json*".to_owned(), |word| format!("*{word}*"));
        let mut commands = vec![
            format!("docker cp CONTAINER:{}/. {to}   # a server in Docker", quoted(folder)),
            format!(
                "kubectl exec POD -- tar -C {} -cf - . | tar -C {to} -xf -   # a server in Kubernetes",
                quoted(folder)
            ),
        ];
        if !self.is_local {
            let source = quoted(&format!("{}:{folder}/{names}", self.host));
            commands.insert(0, format!("scp -p {source} {to}/   # a server on another machine"));
        }
        commands
    }
}

/// The text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_host_folders_and_files() {
        let copy = Copy {
            host: "gpu1",
            is_local: false,
            server_folder: "/tmp/t/",
            file_word: Some("gpuprism-prefill-1"),
            to: Path::new("my out/prefill"),
        };
        let commands = copy.commands();
        assert!(commands[0].starts_with("scp -p 'gpu1:/tmp/t/*gpuprism-prefill-1*' 'my out/prefill'/"), "{commands:?}");
        assert!(commands[1].starts_with("docker cp CONTAINER:/tmp/t/. 'my out/prefill'"), "{commands:?}");
        assert!(commands[2].starts_with("kubectl exec POD -- tar -C /tmp/t -cf - . | tar -C 'my out/prefill' -xf -"));
        assert_eq!(Copy { is_local: true, ..copy }.commands().len(), 2);
    }

    #[test]
    fn a_word_with_quotes_stays_one_word() {
        assert_eq!(quoted("a'b c"), r"'a'\''b c'");
    }
}
