#pragma once

#include <filesystem>

namespace troupe {

/// What stands at `path`; file_type::symlink if the path or its folder is a
/// link to nothing. A link to nothing is not an absent file: whoever opens the
/// path (open_regular_file) then says where the link leads. Errors: Errc::io
/// where the system does not let us look, which is not absence either.
[[nodiscard]] std::filesystem::file_type type_at(
    const std::filesystem::path& path);

/// Whether an optional file is to be opened: `path` names a file, or a link to
/// nothing. Errors: those of type_at.
[[nodiscard]] bool is_there(const std::filesystem::path& path);

}  // namespace troupe
