//! Enums that are one word each, the same in JSON and in text.

/// Declares an enum whose variants have one stable name for JSON, OpenAPI and people.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$about])* #[serde(rename = $text)] $variant,)*
        }

        // The derive does not see the value of `$text`, and would list the names of the variants.
        impl utoipa::ToSchema for $name {}

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let names = $name::ALL.iter().map(|one| one.name());
                let text = utoipa::openapi::schema::Type::String;
                let schema = utoipa::openapi::schema::ObjectBuilder::new();
                schema.schema_type(text).enum_values(Some(names)).into()
            }
        }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Returns the stable name.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub(crate) use named;
