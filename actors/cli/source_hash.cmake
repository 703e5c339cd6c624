# Writes OUT, a source file with the hash of the files that LIST names, relative
# to ROOT, and of LIST itself (which names the compile options too). Run by the
# build: cmake -DROOT=… -DLIST=… -DOUT=… -P source_hash.cmake
file(STRINGS ${LIST} lines)
file(SHA256 ${LIST} text)
foreach(line IN LISTS lines)
  if(line MATCHES "^file (.*)$")
    file(SHA256 ${ROOT}/${CMAKE_MATCH_1} one)
    string(APPEND text " ${one}")
  endif()
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUT} "#include \"actors/cli/versions.h\"

namespace troupe::actors {
std::string source_hash() { return \"${hash}\"; }
}  // namespace troupe::actors
")
