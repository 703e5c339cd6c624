# Finds every third-party library once and gives it a target name. All of them
# are Debian packages; scripts/setup.sh installs them.

find_package(Threads REQUIRED)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # Debian's oneDNN runs on GCC's OpenMP: Troupe must limit the threads of GCC's
  # runtime, not of Clang's.
  foreach(part include libgomp.so)
    execute_process(COMMAND g++ -print-file-name=${part}
      OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE
      COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND gcc_openmp ${path})
  endforeach()
  list(GET gcc_openmp 0 gcc_include)
  list(GET gcc_openmp 1 gcc_library)
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED)
  target_compile_options(OpenMP::OpenMP_CXX INTERFACE
    "SHELL:-idirafter ${gcc_include}")
  target_link_libraries(OpenMP::OpenMP_CXX INTERFACE ${gcc_library})
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
# Debian's CMake file for oneDNN asks for OpenCL, which the CPU library does not
# use.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
find_library(HWY_LIBRARY hwy REQUIRED)
find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(ZMQ_LIBRARY zmq REQUIRED)
find_path(ZMQ_INCLUDE_DIR zmq.h REQUIRED)
find_library(SODIUM_LIBRARY sodium REQUIRED)
find_path(SODIUM_INCLUDE_DIR sodium.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
add_library(UTF8PROC::utf8proc UNKNOWN IMPORTED)
set_target_properties(UTF8PROC::utf8proc PROPERTIES
  IMPORTED_LOCATION ${UTF8PROC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${UTF8PROC_INCLUDE_DIR})
find_path(BOOST_INCLUDE_DIR boost/version.hpp REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core pull)
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)

# ZeroMQ's package has no CMake file, and its pkg-config file names more than a
# shared library needs.
find_path(ZMQ_INCLUDE_DIR zmq.h REQUIRED)
find_library(ZMQ_LIBRARY zmq REQUIRED)

# Debian ships no CMake file for CAF.
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
find_library(CAF_CORE_LIBRARY caf_core REQUIRED)
add_library(caf::core UNKNOWN IMPORTED)
set_target_properties(caf::core PROPERTIES IMPORTED_LOCATION ${CAF_CORE_LIBRARY}
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR}
  INTERFACE_LINK_LIBRARIES Threads::Threads)

if(TROUPE_WITH_CUDA)
  find_package(CUDAToolkit 12.4 REQUIRED)
  # Not part of every toolkit: net/no_nccl.cpp.
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
endif()
if(TROUPE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  find_path(RAPIDCHECK_INCLUDE_DIR rapidcheck.h REQUIRED)
endif()
