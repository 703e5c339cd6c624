# What `cpack` makes: a tarball that runs from any folder, and a Debian package.
# scripts/package.sh makes both and tries them.

set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VENDOR Troupe)
set(CPACK_PACKAGE_CONTACT "The authors of Troupe <troupe@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "Samples diffusion models in parallel, with the same bytes as one worker")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_SYSTEM_NAME ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
# Both hold the components `program` and `demo`; `cmake --install --component program`
# leaves the bundled model out.
set(CPACK_GENERATOR TGZ DEB)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The libraries that the program is linked with, as dpkg-shlibdeps finds them.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# For scripts/convert_checkpoint.py.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3)
include(CPack)
