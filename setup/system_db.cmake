# cmake -P system_db.cmake CUBINS FATUNE OUT TEXT... -- makes the system database OUT of the texts in db/tuned. CUBINS is
# what `fatune import --cubins` takes, or none.
#
# FATUNE makes it beside and it takes the place of the last one whole: who has that open keeps it. A text with a line
# that is refused ends the build with that line.
set(texts "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 6 ${last})
  list(APPEND texts "${CMAKE_ARGV${i}}")
endforeach()
set(what --packaged)
if(NOT CMAKE_ARGV3 STREQUAL none)
  set(what "--cubins=${CMAKE_ARGV3}")
endif()
set(out "${CMAKE_ARGV5}")
get_filename_component(folder "${out}" DIRECTORY)
file(MAKE_DIRECTORY "${folder}")
file(REMOVE "${out}.new" "${out}.new-journal")
set(ENV{FATUNE_SYSTEM_DB} "${out}")
set(ENV{FATUNE_TEMPLATES} "")
execute_process(COMMAND "${CMAKE_ARGV4}" import "${what}" --quiet --db "${out}.new" ${texts} RESULT_VARIABLE code
                OUTPUT_VARIABLE said ERROR_VARIABLE errors)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the system database cannot be made: ${said}${errors}")
endif()
file(RENAME "${out}.new" "${out}")
string(REGEX REPLACE "\n$" "" said "${said}")
message("system database: ${said}")
