# Every header of ours must compile alone: one generated source per header, built
# with the tests.
file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  kernels/*.h models/*.h samplers/*.h net/*.h config/*.h actors/*.h)
set(sources)
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER ${header} name)
  set(source ${PROJECT_BINARY_DIR}/header_check/${name}.cpp)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "#include \"${header}\"\n")
  endif()
  list(APPEND sources ${source})
endforeach()
add_library(troupe_header_check OBJECT ${sources})
target_include_directories(troupe_header_check PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(troupe_header_check PRIVATE -O0)
target_link_libraries(troupe_header_check PRIVATE caf::core)
