"""Why was an attack missed? Each repair is carried out on the same stream."""
