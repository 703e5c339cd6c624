# Every header of ours must compile alone. The header that a source includes
# first does where each source is compiled alone (preset `dev`). Each other header gets a
# generated source of the target troupe_header_check, which `all` leaves out and
# `scripts/test.sh full` builds.
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  kernels/*.h models/*.h samplers/*.h net/*.h config/*.h actors/*.h)
foreach(target kernels models samplers net scheduler_config config
        policies actors remote emulation wire artefacts cli)
  get_target_property(sources troupe_${target} SOURCES)
  get_target_property(folder troupe_${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    if(EXISTS ${source} AND NOT source MATCHES "^${PROJECT_BINARY_DIR}/")
      file(STRINGS ${source} first LIMIT_COUNT 1 REGEX "^ *# *include")
      string(REGEX REPLACE "^[^\"]*\"([^\"]*)\".*$" "\\1" first "${first}")
      list(REMOVE_ITEM headers "${first}")
    endif()
  endforeach()
endforeach()
set(sources)
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER ${header} name)
  set(source ${PROJECT_BINARY_DIR}/header_check/${name}.cpp)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "#include \"${header}\"\n")
  endif()
  list(APPEND sources ${source})
endforeach()
add_library(troupe_header_check OBJECT EXCLUDE_FROM_ALL ${sources})
target_include_directories(troupe_header_check PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(troupe_header_check PRIVATE -O0)
target_link_libraries(troupe_header_check PRIVATE caf::core)
