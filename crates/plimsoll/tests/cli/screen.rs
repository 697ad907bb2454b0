//! A terminal's screen after the bytes that a program wrote to it: the part of a terminal that the
//! live view needs. An unknown sequence fails the test, so that nothing is compared that was not
//! understood.

/// The characters on a screen.
pub(crate) struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// True once the program has switched to the alternate screen.
    pub(crate) is_alternate: bool,
    pub(crate) is_cursor_visible: bool,
}

impl Screen {
    /// Replays the output of a program on an empty screen.
    pub(crate) fn after(bytes: &[u8], (columns, rows): (u16, u16)) -> Screen {
        let mut screen = Screen {
            cells: vec![vec![' '; usize::from(columns)]; usize::from(rows)],
            row: 0,
            column: 0,
            is_alternate: false,
            is_cursor_visible: true,
        };
        // The last character may not be complete yet.
        let text = String::from_utf8_lossy(bytes);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\u{1b}' => screen.escape(&mut rest),
                '\r' => screen.column = 0,
                '\n' => screen.row = (screen.row + 1).min(screen.cells.len() - 1),
                c if c.is_control() => panic!("unexpected control character {c:?}"),
                c => screen.put(c),
            }
        }
        screen
    }

    /// Returns the lines without trailing spaces.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |cells: &Vec<char>| cells.iter().collect::<String>().trim_end().to_string();
        self.cells.iter().map(line).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.lines().join("\n") + "\n"
    }

    fn put(&mut self, c: char) {
        if let Some(cell) = self.cells.get_mut(self.row).and_then(|row| row.get_mut(self.column)) {
            *cell = c;
        }
        self.column += 1;
    }

    fn escape(&mut self, rest: &mut std::str::Chars<'_>) {
        match rest.next() {
            Some('[') => {}
            None => return,
            Some(other) => panic!("unexpected sequence ESC {other:?}"),
        }
        let mut parameters = String::new();
        for c in rest.by_ref() {
            if c.is_ascii_digit() || matches!(c, ';' | '?' | ':') {
                parameters.push(c);
                continue;
            }
            return self.control(&parameters, c);
        }
    }

    fn control(&mut self, parameters: &str, last: char) {
        let number = |at: usize| -> usize {
            parameters.split(';').nth(at).and_then(|text| text.parse().ok()).unwrap_or(1)
        };
        match (last, parameters) {
            ('H', _) => (self.row, self.column) = (number(0) - 1, number(1) - 1),
            ('J', "2") => self.cells.iter_mut().for_each(|row| row.fill(' ')),
            ('J', _) => {
                self.cells[self.row][self.column..].fill(' ');
                self.cells[self.row + 1..].iter_mut().for_each(|row| row.fill(' '));
            }
            ('K', _) => self.cells[self.row][self.column..].fill(' '),
            ('h' | 'l', "?1049") => self.is_alternate = last == 'h',
            ('h' | 'l', "?25") => self.is_cursor_visible = last == 'h',
            // Colours, and the synchronization of frames.
            ('m', _) | ('h' | 'l', _) => {}
            _ => panic!("unexpected sequence ESC [ {parameters} {last}"),
        }
    }
}

#[test]
fn a_screen_shows_the_last_character_of_each_cell() {
    let bytes = b"\x1b[?1049h\x1b[2J\x1b[1;3Hab\x1b[1mc\x1b[0m\x1b[2;1Hd\x1b[1;3He\x1b[?25l";
    let screen = Screen::after(bytes, (6, 3));
    assert_eq!(screen.lines(), ["  ebc", "d", ""]);
    assert!(screen.is_alternate && !screen.is_cursor_visible);
    let left = [&bytes[..], b"\x1b[1;4H\x1b[K\x1b[?1049l\x1b[?25h"].concat();
    let screen = Screen::after(&left, (6, 3));
    assert_eq!(screen.lines(), ["  e", "d", ""]);
    assert!(!screen.is_alternate && screen.is_cursor_visible);
}
