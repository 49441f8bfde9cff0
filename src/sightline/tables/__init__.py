"""Tables that people export: from a file to columns with a meaning.

A plant's folder and `sightline evaluate --train --test` read their tables here, so that
one file is understood in one way.

==============================  ====================================================
`text_tables`                   a file as a frame: encoding, separator, header, units
`stamps`                        time stamps as seconds since 1970
`cells`                         which column is the time, the tag, the value ...; text
                                as numbers: decimal commas, state words, labels
`lists`                         short lists: attacks and incidents, tags, alarms
==============================  ====================================================

Only what is certain is read; what could be read in two ways is refused with a sentence
that says how to state it. Whatever was chosen or left out is in the notices.
"""
