# What is installed where. Manual pages and changelogs are compressed as Debian wants them: without
# name and time, so that the same source gives the same bytes.
find_program(ONCERUN_GZIP gzip)

# oncerun_install_gz(SOURCE FOLDER [NAME]): FOLDER/NAME.gz, or plain where there is no gzip.
function(oncerun_install_gz source folder)
  get_filename_component(name ${source} NAME)
  if(ARGC GREATER 2)
    set(name ${ARGV2})
  endif()
  if(NOT ONCERUN_GZIP)
    install(FILES ${PROJECT_SOURCE_DIR}/${source} DESTINATION ${folder} RENAME ${name})
    return()
  endif()
  set(packed ${PROJECT_BINARY_DIR}/gz/${folder}/${name}.gz)
  add_custom_command(OUTPUT ${packed}
    COMMAND ${ONCERUN_GZIP} -9nc ${PROJECT_SOURCE_DIR}/${source} > ${packed}
    DEPENDS ${PROJECT_SOURCE_DIR}/${source} VERBATIM)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/gz/${folder})
  set_property(GLOBAL APPEND PROPERTY oncerun_gz ${packed})
  install(FILES ${packed} DESTINATION ${folder})
endfunction()

install(TARGETS oncerun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(page oncerun.1 oncerun-guarantees.7)
  string(REGEX REPLACE ".*\\." "" chapter ${page})
  oncerun_install_gz(man/${page} share/man/man${chapter})
endforeach()
install(FILES completions/oncerun.bash DESTINATION share/bash-completion/completions RENAME oncerun)
install(FILES systemd/oncerun@.service systemd/oncerun@.timer DESTINATION lib/systemd/system)
install(FILES README.md DESTINATION share/doc/oncerun)
install(FILES packaging/copyright DESTINATION share/doc/oncerun)
oncerun_install_gz(CHANGELOG.md share/doc/oncerun changelog)

include(cmake/Package.cmake)

get_property(oncerun_gz GLOBAL PROPERTY oncerun_gz)
add_custom_target(oncerun_compressed ALL DEPENDS ${oncerun_gz})
