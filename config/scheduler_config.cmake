# The scheduler reader, its keys, the solver names and their suggestions: a part
# of `config` that needs only the options and rows of `samplers`, so that samplers' own
# tests can link it.
troupe_library(scheduler_config JOINED
  SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/foreign_solvers.cpp
  ${CMAKE_CURRENT_LIST_DIR}/known_keys.cpp
  ${CMAKE_CURRENT_LIST_DIR}/python_json.cpp
  ${CMAKE_CURRENT_LIST_DIR}/scheduler_config.cpp
  ${CMAKE_CURRENT_LIST_DIR}/solver_names.cpp
  ${CMAKE_CURRENT_LIST_DIR}/suggest.cpp
  LINK troupe_samplers
  PRIVATE nlohmann_json::nlohmann_json)
