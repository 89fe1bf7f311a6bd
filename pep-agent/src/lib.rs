//! Place of the agents of the ACKing border PEP (`border` and `server`). They are not built yet: there is nothing to
//! run here, and nothing that pretends to.
